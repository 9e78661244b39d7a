"""The connect page says how far the entry behind each choice can be trusted."""

from pathlib import Path

import pytest

from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry


@pytest.mark.parametrize(
    ("provenance", "said"),
    [
        ("reviewed", "reviewed by hand"),
        ("sourced", "taken from named sources"),
        ("unconfirmed", "not confirmed: look at the address"),
        (None, None),
    ],
)
async def test_an_entry_s_trust_is_shown(tmp_path: Path, provenance: str | None, said: str | None) -> None:
    entry = tracker_entry("https://tracker.example.com")
    write_entry(tmp_path, "tracker", {**entry, "provenance": provenance} if provenance else entry)
    running = RunningGateway(tmp_path, document([]))
    await running.start()
    try:
        token = await running.session_token()
        async with running.http.get(f"{running.url}/connect?session_token={token}") as answer:
            text = await answer.text()
    finally:
        await running.stop()
    assert answer.status == 200
    assert (said in text) if said else ("entry in the catalog" not in text)

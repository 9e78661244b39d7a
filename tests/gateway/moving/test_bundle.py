"""Export to a sealed bundle, and import it somewhere else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.moving.sealed_stream import SealedWriter
from gateway.secret import Secret
from tests.fakes.gateways import RunningGateway
from tests.fakes.peer import FakePeer
from tests.fakes.tracker import Tracker
from tests.gateway.moving.conftest import PASSPHRASE, SITE, GatewayFolder, oauth

SEALED = ("--passphrase-env", "BUNDLE_PASSPHRASE")


@pytest.fixture(autouse=True)
def _quick_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make key derivation fast; it normally takes 0.4 s."""
    assert SealedWriter.__init__.__kwdefaults__["log2_n"] >= 17
    monkeypatch.setitem(SealedWriter.__init__.__kwdefaults__, "log2_n", 10)


async def export(gateway_folder: GatewayFolder, *arguments: str) -> Path:
    bundle = gateway_folder.folder / "out.bundle"
    await gateway_folder.run_command("export", "-o", str(bundle), *SEALED, *arguments)
    return bundle


async def import_from_peer(gateway_folder: GatewayFolder, peer: FakePeer, count: int = 3) -> None:
    for n in range(count):
        user = {"id": f"u{n}", "email": f"u{n}@example.com", "display_name": "Ünal", "tags": {"a": "b"}}
        more: dict[str, Any] = {"metadata": {"n": n}, "tags": {"team": "blue"}, "connection_config": SITE}
        peer.add(f"c{n}", oauth(n), **more, end_user={**user, "organization": {"id": "o", "display_name": "Org"}})
    await gateway_folder.run_import(peer)


def read_lines(gateway_folder: GatewayFolder, plain: Path) -> list[dict[str, Any]]:
    """Return the connections in a plain export, without the timestamps of this gateway."""
    lines = [json.loads(line) for line in plain.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "connection"]


async def test_export_and_import_keep_every_field_and_the_state(
    gateway_folder: GatewayFolder,
    peer: FakePeer,
    running: RunningGateway,
    tracker: Tracker,
    make_gateway_folder: Callable[..., GatewayFolder],
) -> None:
    await import_from_peer(gateway_folder, peer)
    await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true", expect=424)
    bundle = await export(gateway_folder)
    other_gateway = make_gateway_folder()
    ran = await other_gateway.run_command("import", str(bundle), *SEALED)
    assert ran.report["imported"] == 3
    for item, name in ((gateway_folder, "before"), (other_gateway, "after")):
        await item.run_command("export", "-o", str(item.folder / f"{name}.jsonl"), "--plain")
    before, after = (
        read_lines(gateway_folder, gateway_folder.folder / "before.jsonl"),
        read_lines(other_gateway, other_gateway.folder / "after.jsonl"),
    )
    assert before == after
    assert {entry["connection_id"]: entry["past"]["state"] for entry in after} == {
        "c0": "active",
        "c1": "needs_reauth",
        "c2": "active",
    }
    failed = next(entry["past"]["failure"] for entry in after if entry["connection_id"] == "c1")
    assert (failed["code"], failed["final"]) == ("invalid_grant", True)


async def test_imported_connection_is_refreshed_by_the_new_gateway(
    gateway_folder: GatewayFolder,
    running: RunningGateway,
    tracker: Tracker,
    make_gateway_folder: Callable[..., GatewayFolder],
) -> None:
    await running.import_connection(tracker.grant())
    other_gateway = make_gateway_folder()
    await other_gateway.run_command("import", str(await export(gateway_folder)), *SEALED)
    assert (await other_gateway.run_command("refresh", "--all", "--integration", "tracker")).report["connections"][0][
        "outcome"
    ] == "renewed"


async def test_bundle_is_unreadable_without_the_passphrase(
    gateway_folder: GatewayFolder,
    peer: FakePeer,
    monkeypatch: pytest.MonkeyPatch,
    make_gateway_folder: Callable[..., GatewayFolder],
) -> None:
    await import_from_peer(gateway_folder, peer)
    bundle = await export(gateway_folder)
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert not any(word in bundle.read_bytes() for word in (b"rt-", b"u0@example.com", b"tracker"))
    monkeypatch.setenv("BUNDLE_PASSPHRASE", "correct horse battery stapl")
    other_gateway = make_gateway_folder()
    assert "Wrong passphrase" in (await other_gateway.run_command("import", str(bundle), *SEALED, code=1)).output
    assert await other_gateway.list_connections() == []


@pytest.mark.parametrize("harm", ["cut at a chunk", "cut within", "swapped", "changed", "header", "empty", "appended"])
async def test_incomplete_bundle_is_refused_before_the_first_import(
    harm: str, gateway_folder: GatewayFolder, peer: FakePeer, make_gateway_folder: Callable[..., GatewayFolder]
) -> None:
    peer.add("c0", oauth(0), connection_config=SITE, metadata={"long": "x" * 200_000})
    await gateway_folder.run_import(peer)
    bundle = await export(gateway_folder)
    raw = bundle.read_bytes()
    start = raw.index(b"}", raw.index(b'"chunk"')) + 1
    size = (64 << 10) + 16
    chunks = [raw[i : i + size] for i in range(start, len(raw), size)]
    assert len(chunks) == 4
    harmed = {
        "cut at a chunk": raw[: start + 2 * size],
        "cut within": raw[:-7],
        "swapped": raw[:start] + chunks[1] + chunks[0] + chunks[2] + chunks[3],
        "changed": raw[:-1] + bytes([raw[-1] ^ 1]),
        "header": raw.replace(b'"r": 8', b'"r":  8', 1),
        "empty": raw[:start],
        "appended": raw + chunks[3],
    }[harm]
    assert harmed != raw
    bundle.write_bytes(harmed)
    other_gateway = make_gateway_folder()
    ran = await other_gateway.run_command("import", str(bundle), *SEALED, code=1)
    assert "Error: " in ran.output
    assert await other_gateway.list_connections() == []


async def test_interrupted_import_of_a_bundle_can_be_continued(
    gateway_folder: GatewayFolder, peer: FakePeer, make_gateway_folder: Callable[..., GatewayFolder]
) -> None:
    await import_from_peer(gateway_folder, peer)
    bundle = await export(gateway_folder)
    other_gateway = make_gateway_folder()
    only = other_gateway.folder / "first.jsonl"
    await gateway_folder.run_command("export", "-o", str(only), "--plain")
    lines = only.read_text().splitlines(keepends=True)
    only.write_text("".join(lines[:3]))  # the bundle's header, the integration, one connection
    cut = (await other_gateway.run_command("import", str(only), code=1)).report
    assert (cut["imported"], cut["refused"], cut["reasons"][0]["reason"]) == (1, 1, "incomplete")
    assert "line 3: the export that ends here is incomplete" in cut["reasons"][0]["example"]["detail"]
    ran = await other_gateway.run_command("import", str(bundle), *SEALED)
    assert (ran.report["imported"], ran.report["skipped"]) == (2, 1)
    assert len(await other_gateway.list_connections()) == 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"later_member": 1}, "'later_member' is not a field here"),
        ({"kind": "later_kind"}, "it has a line of kind 'later_kind'"),
    ],
)
async def test_bundle_of_a_later_version_is_refused_before_the_first_import(
    change: dict[str, Any],
    why: str,
    gateway_folder: GatewayFolder,
    peer: FakePeer,
    make_gateway_folder: Callable[..., GatewayFolder],
) -> None:
    await import_from_peer(gateway_folder, peer)
    plain = gateway_folder.folder / "plain.jsonl"
    await gateway_folder.run_command("export", "-o", str(plain), "--plain")
    *lines, end = [json.loads(line) for line in plain.read_text().splitlines()]
    lines[-1] |= change
    if "kind" in change:
        end["connections"] -= 1
    bundle = gateway_folder.folder / "later.bundle"
    with bundle.open("wb") as out:
        writer = SealedWriter(out, Secret(PASSPHRASE))
        writer.write("\n".join(map(json.dumps, [*lines, end])).encode())
        writer.close()
    other_gateway = make_gateway_folder()
    ran = await other_gateway.run_command("import", str(bundle), *SEALED, code=1)
    assert "The bundle cannot be read by this version: " in ran.output
    assert why in ran.output
    assert await other_gateway.list_connections() == []


async def test_missing_integration_is_created_with_its_client(
    gateway_folder: GatewayFolder,
    peer: FakePeer,
    running: RunningGateway,
    make_gateway_folder: Callable[..., GatewayFolder],
) -> None:
    await import_from_peer(gateway_folder, peer, 1)
    other_gateway = make_gateway_folder()
    words = ("import", str(await export(gateway_folder)), *SEALED, "--integration", "tracker=moved")
    refusal = await other_gateway.run_command(*words, code=1)
    assert refusal.report["reasons"][0]["reason"] == "unknown_integration"
    assert "add --create-integrations" in refusal.output
    created = await other_gateway.run_command(*words, "--create-integrations")
    assert created.report["integrations"]["made"] == ["moved"]
    assert "--create-integrations" not in created.output
    assert [connection["provider_config_key"] for connection in await other_gateway.list_connections()] == ["moved"]


async def test_export_replaces_no_file_and_leaves_no_partial_file(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    await import_from_peer(gateway_folder, peer, 1)
    bundle = await export(gateway_folder)
    before = bundle.read_bytes()
    assert "Usage:" in (await gateway_folder.run_command("export", "-o", str(bundle), *SEALED, code=2)).output
    assert bundle.read_bytes() == before
    await gateway_folder.run_command("export", "-o", str(bundle), *SEALED, "--force")
    assert bundle.read_bytes() != before
    assert [path.name for path in gateway_folder.folder.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.parametrize("arguments", [[], ["--plain", *SEALED], ["--passphrase-env", "SHORT"]])
async def test_export_with_an_unsuitable_passphrase_writes_nothing(
    arguments: list[str], gateway_folder: GatewayFolder, monkeypatch: Any
) -> None:
    monkeypatch.setenv("SHORT", "elevenchars")
    await gateway_folder.run_command("export", "-o", str(gateway_folder.folder / "x"), *arguments, code=2)
    assert not (gateway_folder.folder / "x").exists()


async def test_plain_export_warns_and_is_readable_by_its_owner_only(
    gateway_folder: GatewayFolder, peer: FakePeer
) -> None:
    await import_from_peer(gateway_folder, peer, 1)
    plain = gateway_folder.folder / "plain.jsonl"
    ran = await gateway_folder.run_command("export", "-o", str(plain), "--plain", code=0)
    assert "in plain text" in ran.output
    assert read_lines(gateway_folder, plain)[0]["credentials"]["refresh_token"] == "rt-0"
    assert plain.stat().st_mode & 0o777 == 0o600


async def test_values_that_nest_deep_are_cut_in_an_own_export_and_refused_in_other_lines(
    gateway_folder: GatewayFolder, peer: FakePeer, make_gateway_folder: Callable[..., GatewayFolder]
) -> None:
    """Earlier versions stored values that nest hundreds of levels deep; their exports still load."""
    await import_from_peer(gateway_folder, peer, 1)
    plain = gateway_folder.folder / "plain.jsonl"
    await gateway_folder.run_command("export", "-o", str(plain), "--plain")
    *head, line, end = [json.loads(line) for line in plain.read_text().splitlines()]
    deep = json.loads('{"a":' * 700 + "{}" + "}" * 700)
    own = {**line, "metadata": {"n": 1, "deep": deep}, "connection_config": {**line["connection_config"], "x": deep}}
    foreign = {name: value for name, value in own.items() if name not in ("past", "kind")} | {"connection_id": "c9"}
    other_gateway = make_gateway_folder()
    lines = other_gateway.folder / "deep.jsonl"
    lines.write_text("\n".join(map(json.dumps, [*head, own, end, foreign])))
    ran = await other_gateway.run_command("import", str(lines), code=1)
    assert (ran.report["imported"], ran.report["refused"]) == (1, 1)
    assert "connection_config nests deeper than 64 levels" in ran.report["reasons"][0]["example"]["detail"]
    assert "metadata nests deeper than 64 levels" in ran.report["reasons"][0]["example"]["detail"]
    (shown,) = await other_gateway.list_connections()
    assert (shown["connection_id"], shown["metadata"]["n"]) == ("c0", 1)

"""``GET /audit/uses``: the range of the counts."""

from typing import Any

import pytest

from tests.fakes.gateways import RunningGateway


@pytest.mark.parametrize(
    ("query", "begin", "end"),
    [
        ("from=2026-01-02T03:04:05Z&to=2026-01-02T05:00:00Z", "2026-01-02T03:00:00.000+00:00", "2026-01-02T05:00:00.000+00:00"),
        ("from=2026-01-02T03:04:05Z&to=2026-01-02T05:00:01Z", "2026-01-02T03:00:00.000+00:00", "2026-01-02T06:00:00.000+00:00"),
        ("to=9999-12-31T23:59:59Z", "9999-12-30T23:00:00.000+00:00", "9999-12-31T23:00:00.000+00:00"),
    ],
)  # fmt: skip
@pytest.mark.asyncio(loop_scope="module")
async def test_uses_are_summed_over_whole_hours(
    shared_gateway: RunningGateway, query: str, begin: str, end: str
) -> None:
    body: dict[str, Any] = await shared_gateway.json("GET", f"/audit/uses?{query}", expect=200)
    assert (body["from"], body["to"]) == (begin, end)


@pytest.mark.asyncio(loop_scope="module")
async def test_uses_before_the_first_datetime_are_refused(shared_gateway: RunningGateway) -> None:
    """Such a request used to fail with 500."""
    body = await shared_gateway.json("GET", "/audit/uses?to=0001-01-01T00:00:00Z", expect=400)
    assert (body["error"]["code"], body["error"]["errors"][0]["path"]) == ("invalid_query_params", ["to"])

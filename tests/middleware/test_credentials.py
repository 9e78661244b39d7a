"""The credential is laid over whatever the caller put in its place, and goes nowhere else."""

import pytest
from multidict import CIMultiDict

from gateway.connections.opened import Placement
from gateway.errors import InvalidRequest
from gateway.middleware.upstream import place
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.proxy_end import opened_at


def placed(placement: Placement, *sent: tuple[str, str], target: str = "/x", has_body: bool = False) -> UpstreamRequest:
    request = UpstreamRequest("GET", "http", "127.0.0.1", 8000, target, CIMultiDict(sent))
    place(opened_at(8000, "", placement), request, has_body=has_body)
    return request


def test_a_slot_replaces_every_spelling() -> None:
    request = placed(Placement(slots=(("x-api-key", "s"),)), ("X-Api-Key", "1"), ("X_API_KEY", "2"), ("X-Other", "3"))
    assert list(request.headers.items()) == [("X-Other", "3"), ("x-api-key", "s")]


def test_a_default_stands_in_and_a_content_type_needs_a_body() -> None:
    placement = Placement(defaults=(("Accept", "application/json"), ("Content-Type", "application/json")))
    assert dict(placed(placement).headers) == {"Accept": "application/json"}
    assert dict(placed(placement, ("accept", "*/*"), has_body=True).headers) == {
        "accept": "*/*",
        "Content-Type": "application/json",
    }


def test_a_query_without_slots_is_not_touched() -> None:
    assert placed(Placement(), target="/x?&&a=%zz").target == "/x?&&a=%zz"
    assert placed(Placement(query_slots=(("key", "s%20"),)), target="/x?KEY=1&k%65y=2").target == "/x?KEY=1&key=s%20"


@pytest.mark.parametrize(("scheme", "host", "port"), [("https", "127.0.0.1", 8000), ("http", "127.0.0.1", 8001)])
def test_a_credential_is_asked_once_more_where_it_goes(scheme: str, host: str, port: int) -> None:
    request = UpstreamRequest("GET", scheme, host, port, "/x")
    with pytest.raises(InvalidRequest, match="does not travel"):
        place(opened_at(8000), request, has_body=False)
    assert "Authorization" not in request.headers

"""A response of the client, and its former names."""

import pickle

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gateway import client
from gateway.client import CallFailed, CutShort, GatewayError, PagingBroken, ProviderError, Response, Unreachable

FROM_GATEWAY = CIMultiDictProxy(CIMultiDict({"Gateway-Request-Id": "r-1"}))
GONE = Response(404, "Not Found", FROM_GATEWAY, b'{"message": "gone"}')


def test_former_names_of_a_response_are_kept() -> None:
    assert client.Answer is Response
    assert {"Answer", "Response"} <= set(client.__all__)
    assert ProviderError(GONE).answer is ProviderError(GONE).response is GONE


@pytest.mark.parametrize(
    "fault",
    [
        GatewayError(
            404, "unknown_connection", "There is none.", payload={"a": 1}, request_id="r-1", retry_after_s=2.0
        ),
        PagingBroken({"status": 502, "code": "page_failed", "message": "No page."}, "c-1", "r-1"),
        ProviderError(GONE),
        Unreachable("no response from the gateway", "nothing listens at this address"),
        CutShort("the response was interrupted"),
    ],
)
def test_error_passes_between_processes(fault: CallFailed) -> None:
    """Reading it in the other process used to fail, which hangs a pool of `multiprocessing`."""
    again = pickle.loads(pickle.dumps(fault))
    assert (type(again), str(again), again.args) == (type(fault), str(fault), fault.args)
    assert again.__dict__ == fault.__dict__


def test_response_can_be_pickled_with_all_its_headers() -> None:
    headers = CIMultiDictProxy(CIMultiDict([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]))
    again = pickle.loads(pickle.dumps(Response(200, "OK", headers, b"x")))
    assert again == Response(200, "OK", headers, b"x")
    assert again.headers.getall("set-cookie") == ["a=1", "b=2"]


def test_error_status_is_raised_with_its_response() -> None:
    with pytest.raises(ProviderError, match=r'returned 404 Not Found: \{"message": "gone"\}') as raised:
        GONE.raise_for_status()
    assert (raised.value.response, raised.value.status) == (GONE, 404)

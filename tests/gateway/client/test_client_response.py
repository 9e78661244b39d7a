"""A response of the client, and its former names."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gateway import client
from gateway.client import ProviderError, Response

GONE = Response(404, "Not Found", CIMultiDictProxy(CIMultiDict()), b'{"message": "gone"}')


def test_former_names_of_a_response_are_kept() -> None:
    assert client.Answer is Response
    assert {"Answer", "Response"} <= set(client.__all__)
    assert ProviderError(GONE).answer is ProviderError(GONE).response is GONE


def test_error_status_is_raised_with_its_response() -> None:
    with pytest.raises(ProviderError, match=r'returned 404 Not Found: \{"message": "gone"\}') as raised:
        GONE.raise_for_status()
    assert (raised.value.response, raised.value.status) == (GONE, 404)

"""Messages of a provider contain no secret of the call, in any usual encoding."""

import base64
from urllib.parse import quote, quote_plus

import pytest

from gateway.records.provider_call import ProviderCall, scrubbed
from gateway.secret import MASK

SECRET = "s3cret/+ value="


@pytest.mark.parametrize(
    "spelt",
    [SECRET, quote(SECRET, safe=""), quote_plus(SECRET), base64.b64encode(SECRET.encode()).decode().rstrip("=")],
)
def test_a_secret_is_masked_in_each_spelling(spelt: str) -> None:
    assert scrubbed(f"no such token: {spelt}!", (SECRET,)) == f"no such token: {MASK}!"


def test_a_longer_secret_is_masked_before_one_that_it_contains() -> None:
    assert scrubbed("abcdefgh abcd", ("abcd", "abcdefgh")) == f"{MASK} {MASK}"


def test_a_secret_with_a_lone_surrogate_is_masked() -> None:
    assert scrubbed("bad pass\ud800word", ("pass\ud800word",)) == f"bad {MASK}"


def test_a_short_text_is_not_masked() -> None:
    assert scrubbed("a cat", ("a", "cat")) == "a cat"


def test_a_call_masks_its_own_secrets_and_shows_none() -> None:
    call = ProviderCall("https://a.example/t", {"authorization": SECRET}, SECRET.encode(), (SECRET,))
    assert call.scrubbed(f"bad {SECRET}") == f"bad {MASK}"
    assert SECRET not in repr(call)

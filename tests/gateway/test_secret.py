"""A secret is masked in every text that is made of it, and is compared by its value."""

import json
import pickle

import pytest

from gateway.secret import MASK, Secret, digest


def test_every_text_made_of_a_secret_is_the_mask() -> None:
    secret = Secret("s3cret")
    assert (str(secret), repr(secret), f"{secret}", f"{secret:>40}", f"{secret}", str([secret])) == (MASK,) * 5 + (
        f"[{MASK}]",
    )
    assert secret.reveal() == "s3cret"


def test_json_and_pickle_refuse_a_secret() -> None:
    with pytest.raises(TypeError):
        json.dumps({"key": Secret("s3cret")})
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret("s3cret"))


def test_secrets_are_equal_by_their_text_and_to_no_text() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("\ud800") == Secret("\ud800")  # half a surrogate pair, which JSON can contain
    assert not Secret("")


def test_a_digest_is_sha_256_in_hex() -> None:
    assert digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert len(digest("\ud800")) == 64

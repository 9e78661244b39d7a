"""Master keys wrap and unwrap data keys, and reveal nothing."""

import base64
import os
from dataclasses import replace

import pytest

from gateway.secret import Secret
from gateway.vault import Keyring, UnknownKey, VaultError
from gateway.vault.seal import weakness

OLD, NEW = os.urandom(32), os.urandom(32)


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padding", ["", "="])
def test_a_key_may_be_standard_or_url_safe_base64_with_or_without_padding(encode: object, padding: str) -> None:
    key = b"\xfb\xff" * 16
    assert callable(encode)
    text = encode(key).decode().rstrip("=") + padding
    wrapped, data_key = Keyring([key]).new_data_key("dev")
    assert Keyring([Secret(text)]).unwrap(wrapped) == data_key


@pytest.mark.parametrize("bad", ["", "hello", "?" * 44, base64.b64encode(b"k" * 31).decode(), "é" * 43])
def test_a_key_that_is_not_base64_of_32_bytes_is_refused_without_being_shown(bad: str) -> None:
    with pytest.raises(VaultError, match="Encryption key 2") as refused:
        Keyring([OLD, Secret(bad)])
    assert not bad or bad not in str(refused.value)


def test_a_keyring_needs_a_key() -> None:
    with pytest.raises(VaultError, match=r"store\.encryption_keys"):
        Keyring([])


def test_the_first_key_wraps_and_every_key_unwraps() -> None:
    wrapped, data_key = Keyring([OLD]).new_data_key("dev")
    both = Keyring([NEW, OLD])
    assert both.unwrap(wrapped) == data_key
    again, data_key = both.new_data_key("dev")
    assert Keyring([NEW]).unwrap(again) == data_key
    with pytest.raises(UnknownKey, match=r"is not in store\.encryption_keys"):
        Keyring([OLD]).unwrap(again)


def test_a_wrapped_key_can_be_unwrapped_only_under_its_own_id() -> None:
    keyring = Keyring([OLD])
    wrapped, _ = keyring.new_data_key("dev")
    for changed in (
        replace(wrapped, environment="prod"),
        replace(wrapped, id="00" * 8),
        replace(wrapped, wrapped=wrapped.wrapped[:-1] + bytes([wrapped.wrapped[-1] ^ 1])),
        replace(wrapped, wrapped=b""),
    ):
        with pytest.raises(VaultError):
            keyring.unwrap(changed)


def test_neither_a_keyring_nor_a_key_id_shows_a_key() -> None:
    text = repr(Keyring([OLD, NEW])) + Keyring([OLD]).first_id
    for key in (OLD, NEW):
        assert key.hex()[:16] not in text
        assert base64.b64encode(key).decode()[:16] not in text


WEAK = {
    "is one byte repeated": [bytes(32), b"\xff" * 32, b"A" * 32],
    "counts up or down": [bytes(range(32)), bytes(range(255, 191, -2))],
    "repeats the same 2 bytes": [b"\x01\xfe" * 16],
    "repeats the same 5 bytes": [(b"\x9a\x00\xc3\x17\x80" * 7)[:32]],
    "repeats the same 16 bytes": [bytes.fromhex("a1f40c97e3518b6d02cc7fb96835d4e0") * 2],
    "has only 3 different bytes": [bytes([9, 9, 200, 9, 80, 9, 9, 9] * 2 + [9, 80, 80, 9] * 4)],
    "is text, not random bytes": [b"correct horse battery staple 42!", b"0f1e2d3c4b5a69788796a5b4c3d2e1f0"],
}


@pytest.mark.parametrize(("why", "key"), [(why, key) for why, keys in WEAK.items() for key in keys])
def test_guessable_key_is_recognized(why: str, key: bytes) -> None:
    keyring = Keyring([OLD, key])
    assert keyring.weaknesses == {1: why}
    assert key.hex() not in why


def test_random_key_is_not_reported_as_guessable() -> None:
    assert all(weakness(os.urandom(32)) is None for _ in range(5000))

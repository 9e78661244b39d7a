"""A sealed value opens only in its own place, and only unchanged."""

import os
import random
from dataclasses import replace
from typing import Any

import pytest

from gateway.records.connection import Sealed
from gateway.vault import UnknownKey, Vault, VaultError

ADDRESS: dict[str, Any] = {
    "environment": "dev",
    "table": "connections",
    "row": "r1",
    "column": "credential",
    "version": 3,
}
VALUE = {"type": "OAUTH2", "access_token": "tok-\u00e9\ud800-1", "raw": {"n": [1, None, 2.5]}}


@pytest.fixture
def vault() -> Vault:
    vault = Vault()
    for environment in ("dev", "prod"):
        vault.add_data_key(os.urandom(8).hex(), environment, os.urandom(32)).allowance = 50_000
    return vault


def test_an_opened_value_equals_the_sealed_value(vault: Vault) -> None:
    sealed = vault.seal_json(VALUE, **ADDRESS)
    assert vault.open_json(sealed) == VALUE
    assert b"tok-" not in sealed.ciphertext


def test_every_flipped_byte_is_refused(vault: Vault) -> None:
    sealed = vault.seal_json(VALUE, **ADDRESS)
    for position in range(len(sealed.ciphertext)):
        changed = bytearray(sealed.ciphertext)
        changed[position] ^= 1 << random.randrange(8)
        with pytest.raises(VaultError):
            vault.open_json(replace(sealed, ciphertext=bytes(changed)))


def test_every_shortened_ciphertext_is_refused(vault: Vault) -> None:
    sealed = vault.seal_json(VALUE, **ADDRESS)
    for length in range(len(sealed.ciphertext)):
        with pytest.raises(VaultError):
            vault.open_json(replace(sealed, ciphertext=sealed.ciphertext[:length]))


@pytest.mark.parametrize(
    "other_place",
    [
        {"environment": "prod"},
        {"table": "flows"},
        {"row": "r2"},
        {"column": "secret_config"},
        {"version": 2},
        {"version": 31},
        {"row": "r1credential", "column": ""},
    ],
)
def test_a_ciphertext_moved_to_another_place_is_refused(vault: Vault, other_place: dict[str, Any]) -> None:
    sealed = vault.seal_json(VALUE, **ADDRESS)
    with pytest.raises(VaultError, match="changed, or moved"):
        vault.open_json(replace(sealed, **other_place))


def test_none_of_ten_thousand_swapped_ciphertexts_opens(vault: Vault) -> None:
    places = [ADDRESS | {"row": f"r{n}", "environment": ("dev", "prod")[n % 2]} for n in range(101)]
    sealed = [vault.seal_json({"n": n}, **place) for n, place in enumerate(places)]
    opened = 0
    for place in sealed:
        for other in sealed:
            if other is not place:
                try:
                    vault.open_json(replace(place, ciphertext=other.ciphertext))
                    opened += 1
                except VaultError:
                    pass
    assert opened == 0


def test_the_same_value_never_seals_to_the_same_bytes(vault: Vault) -> None:
    assert len({vault.seal_json(VALUE, **ADDRESS).ciphertext for _ in range(1000)}) == 1000


def test_a_key_seals_no_more_than_its_allowance(vault: Vault) -> None:
    key = vault.sealing_key("dev")
    assert key is not None
    key.allowance = 1
    vault.seal_json(VALUE, **ADDRESS)
    with pytest.raises(VaultError, match="used up its share of data key"):
        vault.seal_json(VALUE, **ADDRESS)


def test_a_newer_key_seals_and_the_older_still_opens(vault: Vault) -> None:
    before = vault.seal_json(VALUE, **ADDRESS)
    newer = vault.add_data_key("ff" * 8, "dev", os.urandom(32))
    assert vault.seal_json(VALUE, **ADDRESS).ciphertext[1:9] != b"\xff" * 8, (
        "the older one has leave, the newer has none"
    )
    newer.allowance = 1
    vault.use_sealing_key(newer)
    after = vault.seal_json(VALUE, **ADDRESS)
    assert after.ciphertext[1:9] == b"\xff" * 8
    assert vault.open_json(before) == vault.open_json(after) == VALUE


def test_unknown_key_differs_from_damage(vault: Vault) -> None:
    foreign = Vault()
    foreign.add_data_key(os.urandom(8).hex(), "dev", os.urandom(32)).allowance = 1
    sealed = foreign.seal_json(VALUE, **ADDRESS)
    assert not vault.has_key_of(sealed)
    with pytest.raises(UnknownKey):
        vault.open_json(sealed)
    with pytest.raises(UnknownKey, match="no data key"):
        vault.seal_json(VALUE, **(ADDRESS | {"environment": "other"}))


def test_no_secret_is_printed_by_the_vault(vault: Vault) -> None:
    sealed = vault.seal_json(VALUE, **ADDRESS)
    key = vault.sealing_key("dev")
    assert "cipher" not in repr(key)
    assert repr(sealed) == f"Sealed(connections.credential, {len(sealed.ciphertext)} bytes)"
    with pytest.raises(VaultError) as refused:
        vault.open_json(Sealed(b"tok-1", **ADDRESS))
    assert "tok-1" not in str(refused.value)


def test_no_byte_may_have_any_other_value(vault: Vault) -> None:
    """Try every other value at every position: more than ten thousand ciphertexts, of which none opens."""
    sealed = vault.seal_json({"access_token": "t" * 20}, **ADDRESS)
    attempts = opened = 0
    for position, right in enumerate(sealed.ciphertext):
        for wrong in {*range(256)} - {right}:
            changed = sealed.ciphertext[:position] + bytes([wrong]) + sealed.ciphertext[position + 1 :]
            attempts += 1
            try:
                vault.open_json(replace(sealed, ciphertext=changed))
                opened += 1
            except VaultError:
                pass
    assert attempts > 10_000
    assert opened == 0


def test_value_sealed_again_keeps_its_place(vault: Vault) -> None:
    before = vault.seal_json(VALUE, **ADDRESS)
    newer = vault.add_data_key("ff" * 8, "dev", os.urandom(32))
    newer.allowance = 1
    vault.use_sealing_key(newer)
    after = vault.seal_again(before)
    assert after.ciphertext[1:9] == b"\xff" * 8
    assert vault.open_json(after) == VALUE
    with pytest.raises(VaultError, match="moved"):
        vault.open_json(replace(after, row="r2"))
    with pytest.raises(VaultError):
        vault.seal_again(replace(before, version=2))

"""A weak encryption key seals no new values. Its old values stay readable, so that the key can be replaced."""

import os

import pytest

from gateway.store import StoreRefused
from gateway.vault import Keyring
from gateway.vault import seal as keyrings
from tests.gateway.store.conftest import StoreOpener

WEAK = bytes(32)


async def test_a_new_store_is_not_made_under_a_weak_key(open_test_store: StoreOpener) -> None:
    with pytest.raises(StoreRefused, match=r"the first key is one byte repeated.*openssl rand -base64 32"):
        await open_test_store(WEAK)
    await open_test_store(os.urandom(32))


async def test_a_store_under_a_weak_key_opens_and_is_moved_to_another(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:  # the state of an earlier version, which accepted weak keys
        before.setattr(keyrings, "weakness", lambda _: None)
        await (await open_test_store(WEAK)).close()
    store = await open_test_store(WEAK)
    await store.use_keyring(Keyring([WEAK]), environments={"another"})
    good = os.urandom(32)
    await store.use_keyring(Keyring([good, WEAK]))
    await store.rotation.rotate(lambda _done, _total: None)
    await (await open_test_store(good)).close()
    with pytest.raises(StoreRefused):
        await open_test_store(WEAK)


async def test_reload_with_a_weak_first_key_is_refused(open_test_store: StoreOpener) -> None:
    good = os.urandom(32)
    store = await open_test_store(good)
    with pytest.raises(StoreRefused, match="can be guessed"):
        await store.use_keyring(Keyring([WEAK, good]))
    await store.use_keyring(Keyring([good, WEAK]))  # a key that is not the first in the list seals no values

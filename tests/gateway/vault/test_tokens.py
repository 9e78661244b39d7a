"""Sealed tokens that a caller keeps open only if they are unchanged."""

import base64

import pytest

from gateway.secret import Secret
from gateway.vault import SealedTokens, VaultError

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def test_sealed_token_is_unreadable_and_opens_again() -> None:
    tokens = SealedTokens([OLD], "page cursor")
    for text in ("", "a", "https://api.example.com/?q=é", "x" * 5000):
        token = tokens.seal(text)
        assert tokens.open(token) == text
        assert token.replace("-", "").replace("_", "").isalnum()
        assert len(text) < 8 or text.encode() not in base64.urlsafe_b64decode(token + "==="[: -len(token) % 4])
    assert tokens.seal("same") != tokens.seal("same")


def test_changed_token_does_not_open() -> None:
    tokens = SealedTokens([OLD], "page cursor")
    token = tokens.seal("position")
    for at in range(len(token) - 1):  # the last character may contain unused bits
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(VaultError):
            tokens.open(changed)


@pytest.mark.parametrize("token", ["", "x", "gAAAA", "é", "\udcff", "a b", "=" * 50])
def test_a_token_that_was_never_sealed_does_not_open(token: str) -> None:
    with pytest.raises(VaultError):
        SealedTokens([OLD], "page cursor").open(token)


def test_token_opens_only_for_its_purpose() -> None:
    with pytest.raises(VaultError):
        SealedTokens([OLD], "another").open(SealedTokens([OLD], "page cursor").seal("x"))


def test_a_replaced_key_still_opens_while_it_is_listed() -> None:
    token = SealedTokens([OLD], "p").seal("x")
    assert SealedTokens([Secret(base64.b64encode(NEW).decode()), OLD], "p").open(token) == "x"
    with pytest.raises(VaultError):
        SealedTokens([NEW], "p").open(token)

"""The account that authorized a connection: where it is read, and when a reconnect is refused."""

import base64
import json
from typing import Any

import pytest

from gateway.catalog.provider_parts import Verification
from gateway.connections.verify import account_of, check_same_account, is_expected
from gateway.errors import InvalidRequest
from gateway.records.connection import Account
from gateway.scripts.script_context import ProviderUnreadable
from tests.fakes.providers import provider


def id_token(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def is_refused(before: Account, now: Account) -> bool:
    try:
        check_same_account(provider(), before, now)
    except InvalidRequest:
        return True
    return False


class FakeAccountSource:
    def __init__(self, response: Any = None, config: dict[str, str] | None = None, **entry: Any) -> None:
        self.provider = provider(**{"proxy": {"base_url": "https://api.example.com"}, **entry})
        self.config = config or {}
        self.status: int | None = 403
        self._response = response

    async def account_response(self) -> Any:
        assert self.provider.account is not None
        if self._response is None:
            raise ProviderUnreadable(f"/me returned {self.status}", status=self.status)
        assert self.provider.account.endpoint == "/me"
        return self._response


ENDPOINT = {"endpoint": "/me", "id": "data.id", "label": ["data.mail", "data.name"]}


@pytest.mark.parametrize(
    ("source", "raw", "account"),
    [
        (FakeAccountSource({"data": {"id": 7, "name": "Ada"}}, account=ENDPOINT), {}, Account("7", "Ada")),
        (FakeAccountSource(None, account=ENDPOINT), {}, Account()),
        (FakeAccountSource(None, account=ENDPOINT), {"id_token": id_token(sub="s", name="Ada")}, Account("s", "Ada")),
        (
            FakeAccountSource({"mail": "ada@x"}, account={"endpoint": "/me", "label": ["mail"]}),
            {"id_token": id_token(sub="s", name="Ada")},
            Account("s", "ada@x"),
        ),
        (
            FakeAccountSource({"mail": "ada@x"}, account={"endpoint": "/me", "label": ["mail"]}),
            {},
            Account(None, "ada@x"),
        ),
        (
            FakeAccountSource(account={"id": "team.id", "label": ["team.name"]}),
            {"team": {"id": "T1"}},
            Account("T1", None),
        ),
        (
            FakeAccountSource(),
            {"id_token": id_token(sub="s", email="ada@example.com", name="Ada")},
            Account("s", "ada@example.com"),
        ),
        (FakeAccountSource(config={"accountId": "a1"}), {}, Account("a1", None)),
        (FakeAccountSource({"data": {"id": True, "mail": ["x"]}}, account=ENDPOINT), {}, Account()),
        (FakeAccountSource(["x"], account=ENDPOINT), {}, Account()),
        (FakeAccountSource(), {"id_token": "not.a"}, Account()),
    ],
)
async def test_account_is_read_from_the_response_the_id_token_or_a_setting(
    source: FakeAccountSource, raw: dict[str, Any], account: Account
) -> None:
    assert await account_of(source, {"raw": raw}) == account


async def test_credential_without_a_token_response_has_no_account() -> None:
    assert await account_of(FakeAccountSource(), {"type": "API_KEY"}) == Account()


REALM = "${connectionConfig.realm}"
IN_PATH: dict[str, Any] = {"account": {"endpoint": f"/company/{REALM}"}}
IN_BASE: dict[str, Any] = {
    "account": {"endpoint": "/me"},
    "proxy": {"base_url": f"https://api.example.com/{REALM}"},
}


@pytest.mark.parametrize("entry", [IN_PATH, IN_BASE], ids=["path", "base URL"])
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_account_named_by_the_browser_is_refused_if_the_provider_refuses_it(
    entry: dict[str, Any], status: int
) -> None:
    source = FakeAccountSource(config={"realm": "9"}, **entry)
    source.status = status
    with pytest.raises(InvalidRequest, match=rf"has no access to .*: realm 9 \({status}\)\. ") as refused:
        await account_of(source, {}, ["realm"])
    assert refused.value.code == "connection_validation_failed"
    assert refused.value.payload == {"reason": "account_not_confirmed"}


@pytest.mark.parametrize("status", [None, 302, 400, 429, 500, 503])
async def test_account_is_unknown_if_the_provider_is_unavailable(status: int | None) -> None:
    source = FakeAccountSource(config={"realm": "9"}, **IN_PATH)
    source.status = status
    assert await account_of(source, {}, ["realm"]) == Account()


async def test_refused_account_url_is_not_an_error_without_a_setting_from_the_browser() -> None:
    assert await account_of(FakeAccountSource(config={"realm": "9"}, account=ENDPOINT), {}, ["realm"]) == Account()
    assert await account_of(FakeAccountSource(config={"realm": "9"}, **IN_PATH), {}) == Account()


def test_reconnect_with_another_account_is_refused_with_the_account_name() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_same_account(provider(), Account("1", "ada@example.com"), Account("2", "eve@example.com"))
    assert refused.value.payload == {"reason": "another_account"}
    assert "ada@example.com" in refused.value.message


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Account("1", "x"), Account("1", "y")),
        (Account(), Account("1")),
        (Account("1"), Account()),
        (Account(), Account()),
    ],
)
def test_same_or_unknown_account_is_accepted(before: Account, now: Account) -> None:
    assert not is_refused(before, now)


@pytest.mark.parametrize(
    ("expect", "body", "expected"),
    [
        (None, b"<html>", True),
        ({"ok": True}, b'{"ok": true}', True),
        ({"ok": True}, b'{"ok": false}', False),
        ({"ok": True}, b'{"ok": 1}', False),
        ({"ok": True}, b'{"ok": "true"}', False),
        ({"ok": True}, b"<html>", False),
        ({"ok": True}, b"[" * 100_000, False),
        ({"ok": True}, b"", False),
        ({"code": 0}, b'{"code": 0}', True),
        ({"code": 0}, b'{"code": false}', False),
        ({"code": 0}, b"{}", False),
        ({"user.id": "*"}, b'{"user": {"id": 0}}', True),
        ({"user.id": "*"}, b'{"user": {"id": null}}', False),
        ({"errors": "-"}, b'{"data": {}}', True),
        ({"errors": "-", "data": "*"}, b'{"errors": [], "data": 1}', False),
        ({"0.state": "on"}, b'[{"state": "on"}]', True),
    ],
)
def test_expected_members_of_a_2xx(expect: dict[str, Any] | None, body: bytes, expected: bool) -> None:
    assert is_expected(Verification(endpoints=["/me"], expect=expect), body) is expected

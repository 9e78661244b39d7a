"""Another package can add an auth mode, but cannot replace a built-in one."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.metadata import EntryPoint
from typing import Any, cast

import pytest

from gateway import auth
from gateway.auth.api_key import ApiKey
from gateway.auth.context import AuthContext, Context
from gateway.auth.mode import AuthMode, Dialogue, Granted, GrantingMode, SetOut, Wish
from gateway.catalog.provider import Provider
from gateway.secret import Secret


class Ticket(AuthMode):
    """A minimal auth mode."""

    name = "TICKET"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        return {"type": self.name, "ticket": str(form["ticket"])}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return {"credentials.ticket": Secret(credential["ticket"])}


class FormerMode(GrantingMode):
    """A mode written for an earlier release, with the names of that release."""

    name = "FORMER"
    momentary = True

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        return {"type": self.name}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return {}

    def set_out(self, context: Context, authorization_input: Wish) -> Dialogue[SetOut]:
        yield from ()
        return SetOut("https://provider.example/consent", {"destinations": context.toward("x").destinations})

    def answered(self, context: Context, query: Mapping[str, str]) -> bool:
        return "code" in query

    def arrive(self, context: Context, kept: Mapping[str, Any], query: Mapping[str, str]) -> Dialogue[Granted]:
        yield from ()
        return Granted(dict(kept))


class NotAMode:
    name = "NOTHING"


class SecondApiKey(ApiKey):
    pass


@pytest.fixture
def installed_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of an installed package."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(auth, "entry_points", lambda group: [point for point in points if point.group == group])
    auth.modes.cache_clear()
    yield points
    auth.modes.cache_clear()


def entry_point(name: str, what: str) -> EntryPoint:
    return EntryPoint(name, f"tests.gateway.auth.test_entry_point:{what}", auth.ENTRY_POINT_GROUP)


def test_mode_of_another_package_is_added(installed_points: list[EntryPoint]) -> None:
    installed_points.append(entry_point("TICKET", "Ticket"))
    mode = auth.modes()["TICKET"]
    assert (mode.types(), mode.revocable({}), mode.single_use) == (("TICKET",), (), False)
    assert len(auth.modes()) == 18


def test_mode_written_for_an_earlier_release_works(installed_points: list[EntryPoint]) -> None:
    installed_points.append(entry_point("FORMER", "FormerMode"))
    mode = auth.modes()["FORMER"]
    assert isinstance(mode, GrantingMode)
    assert mode.single_use
    context = AuthContext(cast(Any, None), cast(Any, None))
    with pytest.raises(StopIteration) as began:
        next(mode.start_consent(context, cast(Any, None)))
    redirect = began.value.value
    assert (redirect.url, redirect.kept) == ("https://provider.example/consent", {"destinations": ("x",)})
    assert mode.has_provider_response(context, {"code": "1"})
    with pytest.raises(StopIteration) as ended:
        next(mode.finish_consent(context, {"a": 1}, {}))
    assert ended.value.value.held == {"a": 1}


def test_built_in_mode_cannot_be_replaced(installed_points: list[EntryPoint]) -> None:
    installed_points.append(entry_point("API_KEY", "SecondApiKey"))
    assert type(auth.modes()["API_KEY"]) is ApiKey


def test_invalid_mode_is_reported_with_the_name_of_its_entry_point(installed_points: list[EntryPoint]) -> None:
    installed_points.append(entry_point("NOTHING", "NotAMode"))
    with pytest.raises(TypeError, match=r"'NOTHING' of gateway.auth_modes .*must name a class that derives from"):
        auth.modes()

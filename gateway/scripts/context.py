"""All that a script may do: read the connection's settings, ask the provider, set settings, or refuse."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gateway.catalog.provider import Provider


class Refused(Exception):
    """The script says no to this connection. `message` tells the end user why and what would work; `payload` tells programs."""

    def __init__(self, message: str, payload: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.payload = dict(payload or {})


class ProviderUnreadable(Exception):
    """The provider could not be asked, or its answer cannot be used. `message` names the address and what happened.

    `refused`: it was asked, and does not take this credential.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.refused = refused


class ScriptContext(Protocol):
    """Given to a script once the credential is there and before anything is stored."""

    @property
    def provider(self) -> Provider: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings so far: the caller's, the token answer's, the callback's."""

    async def get_json(self, path: str) -> Any:
        """GET `path` below the entry's `proxy.base_url` with the new credential. Raises ProviderUnreadable."""

    def set_config(self, **settings: str) -> None:
        """Settings to be stored with the connection."""


PostConnection = Callable[[ScriptContext], Awaitable[None]]

"""What an auth mode must be able to do. No I/O: a mode builds messages and reads replies, others send and receive them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from gateway.catalog.provider import Provider
from gateway.secret import Secret


class AuthMode(Protocol):
    """One way to prove to a provider on whose behalf a request comes.

    A credential travels as the JSON object of api-contract 5.1 (`held`): sealed in the store, opened in memory.
    """

    @property
    def name(self) -> str:
        """As the catalog's `auth_mode` and a credential's `type` spell it."""

    def accept(self, form: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The credential in what was typed or imported (api-contract 1.4). Raises InvalidRequest naming every bad field."""

    def expires_at(self, held: Mapping[str, Any]) -> datetime | None:
        """When it stops working; None if that is not known or never."""

    def refreshable(self, held: Mapping[str, Any]) -> bool:
        """Whether it holds anything to renew it with."""

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        """The placeholders it fills in the entry's templates: ``accessToken``, ``apiKey``, ``username`` …"""

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        """Header templates that carry the credential where the entry's own `proxy.headers` name no slot for it."""

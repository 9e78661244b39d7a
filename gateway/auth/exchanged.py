"""Modes whose credential is typed in once and exchanged for tokens ever after: what is held renews itself."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from gateway.auth.context import Context
from gateway.auth.mode import AuthMode, Dialogue
from gateway.auth.moments import moment
from gateway.catalog.provider import Provider


class ExchangedMode(AuthMode):
    """Holds ``expires_at`` beside its token, and what the next token is had with: asking again is always possible."""

    brought: ClassVar[str | None] = None
    """The member that may be brought along, so that nothing need be asked at first; None: it is always made by us."""

    def complete(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        return dict(held) if self.brought and held.get(self.brought) else (yield from self.renew(held, context))

    def expires_at(self, held: Mapping[str, Any]) -> datetime | None:
        return moment(held.get("expires_at"))

    def refreshable(self, held: Mapping[str, Any], provider: Provider) -> bool:
        return True

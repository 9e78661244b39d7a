"""The gateway's own API for programs that run on asyncio: connections, connect sessions, integrations."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Unpack

from gateway.client import calls
from gateway.client.calls import Call, Configured, Filters, Imported, Json, Session
from gateway.client.message import Options, fields

PAGE: Final = 500


class AsyncOwnApi(ABC):
    """Part of `AsyncClient`. Whatever the gateway refuses is raised as GatewayError; Unreachable and CutShort, too."""

    _usual: Options

    @abstractmethod
    async def _asked(self, call: Call) -> Any:
        """The JSON of a 2xx answer. Raises GatewayError for any other."""

    async def get_connection(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        *,
        force_refresh: bool = False,
        refresh_token: bool = False,
        history: bool = False,
    ) -> Json:
        """The connection with its credentials, renewed where that is due, or by force.

        Reading it at times also keeps its refresh token alive. `refresh_token`: show that one, too; `history`: its story.
        """
        key, named = self._named(provider_config_key, connection_id)
        told = calls.connection(key, named, force_refresh=force_refresh, refresh_token=refresh_token, history=history)
        return await self._json(told)

    async def list_connections(self, **filters: Unpack[Filters]) -> AsyncIterator[Json]:
        """All that fit, newest first, without their credentials; fetched as they are asked for, 500 at once."""
        cursor: str | None = None
        while True:
            page = await self._json(calls.connections(filters, PAGE, cursor))
            for one in page["connections"]:
                yield one
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def import_connection(
        self, credentials: Mapping[str, Any], provider_config_key: str | None = None, **more: Unpack[Imported]
    ) -> Json:
        """Bring in a credential that you hold: ``{"type": "API_KEY", "apiKey": "…"}``. The same id again replaces it.

        Returns the connection. The client's own `connection_id` holds only if `more` has none.
        """
        usual = self._usual.get("connection_id")
        if usual is not None:
            more.setdefault("connection_id", usual)
        return await self._json(calls.imported(self._key(provider_config_key), credentials, more))

    async def update_connection(
        self,
        changes: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | None = None,
    ) -> None:
        """Change `end_user`, `tags` (replaced) or `webhook_url_override`."""
        await self._asked(calls.patched(*self._named(provider_config_key, connection_id), changes))

    async def delete_connection(
        self, provider_config_key: str | None = None, connection_id: str | None = None, *, revoke: bool = True
    ) -> Json:
        """It ends at once, then its tokens at the provider; the answer's `revocation` tells of each. `revoke` False
        leaves them alone."""
        return await self._json(calls.deleted(*self._named(provider_config_key, connection_id), revoke=revoke))

    async def get_metadata(self, provider_config_key: str | None = None, connection_id: str | None = None) -> Json:
        """What was kept with the connection; empty if nothing was."""
        kept: Json | None = (await self.get_connection(provider_config_key, connection_id))["metadata"]
        return kept or {}

    async def set_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Replace what is kept with the connection, or with several at once: with all of them or, where one is unknown,
        with none."""
        await self._asked(self._keeping(metadata, provider_config_key, connection_id, merge=False))

    async def update_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """The same, but other top-level members stay as they are."""
        await self._asked(self._keeping(metadata, provider_config_key, connection_id, merge=True))

    async def create_connect_session(self, **session: Unpack[Session]) -> Json:
        """A session of 30 minutes, or of `expires_in` seconds, for one end user: `token`, `connect_link` (send the user
        there), `expires_at`."""
        return await self._data(calls.connect_session(session))

    async def complete_connect_session(
        self, session_id: str, code_verifier: str, connection_id: str | None = None
    ) -> Json:
        """Store what the end user has connected under a session with a `code_challenge`: `status` and `connections`.

        Call it for your own signed-in user, once they are back. `session_id`: of the session, or of the
        verified result; `connection_id`: of that result, so that nothing else is stored. The same call again returns
        the same."""
        return await self._data(calls.completed_session(session_id, code_verifier, connection_id))

    async def create_reconnect_session(
        self, provider_config_key: str | None = None, connection_id: str | None = None, **session: Unpack[Session]
    ) -> Json:
        """The same, to authorize an existing connection anew; it keeps its id."""
        return await self._data(calls.reconnect_session(*self._named(provider_config_key, connection_id), session))

    async def list_integrations(self) -> list[Json]:
        """All of the environment."""
        found: list[Json] = (await self._asked(calls.integrations()))["data"]
        return found

    async def get_integration(self, provider_config_key: str | None = None, *, include: Sequence[str] = ()) -> Json:
        """One of them. `include`: "webhook" adds the address for the provider's webhooks, "credentials" the OAuth app."""
        return await self._data(calls.integration(self._key(provider_config_key), include))

    async def create_integration(
        self, provider: str, unique_key: str | None = None, **more: Unpack[Configured]
    ) -> Json:
        """Make one of a catalog entry, under its name if not under `unique_key`. Effective at once, on every node soon."""
        return await self._data(calls.new_integration(provider, unique_key, more))

    async def update_integration(
        self, provider_config_key: str | None = None, *, unique_key: str | None = None, **changes: Unpack[Configured]
    ) -> Json:
        """Change what is given; `unique_key` renames it. Not one that gateway.yaml declares."""
        return await self._data(calls.changed_integration(self._key(provider_config_key), changes, unique_key))

    async def delete_integration(self, provider_config_key: str) -> Json:
        """It and its connections, whose tokens are ended at the provider; `connections` in the answer counts them."""
        return await self._json(calls.deleted_integration(provider_config_key))

    async def list_providers(
        self, search: str | None = None, *, category: str | None = None, auth_mode: str | None = None
    ) -> list[Json]:
        """The catalog's entries that fit all of it; `search`: words in name, display name and categories."""
        found: list[Json] = (await self._asked(calls.providers(search, category, auth_mode)))["data"]
        return found

    async def get_provider(self, name: str) -> Json:
        """A catalog entry."""
        return await self._data(calls.provider(name))

    async def _json(self, call: Call) -> Json:
        told: Json = await self._asked(call)
        return told

    async def _data(self, call: Call) -> Json:
        return (await self._json(call))["data"]  # type: ignore[no-any-return]

    def _key(self, given: str | None) -> str:
        key = given or self._usual.get("provider_config_key")
        if not key:
            raise ValueError("provider_config_key is missing: give it to the call, or to the client for all calls")
        return key

    def _named(self, key: str | None, connection_id: str | None) -> tuple[str, str]:
        named: Options = {**self._usual}
        if key is not None:
            named["provider_config_key"] = key
        if connection_id is not None:
            named["connection_id"] = connection_id
        told = fields(named)
        return told["Provider-Config-Key"], told["Connection-Id"]

    def _keeping(
        self, metadata: Mapping[str, Any], key: str | None, connection_id: str | Sequence[str] | None, *, merge: bool
    ) -> Call:
        if connection_id is None or isinstance(connection_id, str):
            key, connection_id = self._named(key, connection_id)
        return calls.metadata(self._key(key), connection_id, metadata, merge=merge)

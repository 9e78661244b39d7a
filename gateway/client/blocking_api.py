"""The gateway's own API for programs without asyncio: `AsyncOwnApi`, run by the client's thread."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from gateway.client.aio import AsyncClient
from gateway.client.background import Loop
from gateway.client.calls import Configured, Filters, Imported, Json, Session


class OwnApi:
    """Part of `Client`; what each method does is told at the one of the same name in `AsyncOwnApi`."""

    _loop: Loop
    _client: AsyncClient

    def get_connection(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        *,
        force_refresh: bool = False,
        refresh_token: bool = False,
        history: bool = False,
    ) -> Json:
        """The connection with its credentials, renewed where that is due, or by force."""
        asked = self._client.get_connection(
            provider_config_key,
            connection_id,
            force_refresh=force_refresh,
            refresh_token=refresh_token,
            history=history,
        )
        return self._loop.run(asked)

    def list_connections(self, **filters: Unpack[Filters]) -> Iterator[Json]:
        """All that fit, newest first, without their credentials; fetched as they are asked for, 500 at once."""
        return self._loop.iterate(self._client.list_connections(**filters))

    def import_connection(
        self, credentials: Mapping[str, Any], provider_config_key: str | None = None, **more: Unpack[Imported]
    ) -> Json:
        """Bring in a credential that you hold: ``{"type": "API_KEY", "apiKey": "…"}``. The same id again replaces it."""
        return self._loop.run(self._client.import_connection(credentials, provider_config_key, **more))

    def update_connection(
        self,
        changes: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | None = None,
    ) -> None:
        """Change `end_user`, `tags` (replaced) or `webhook_url_override`."""
        self._loop.run(self._client.update_connection(changes, provider_config_key, connection_id))

    def delete_connection(
        self, provider_config_key: str | None = None, connection_id: str | None = None, *, revoke: bool = True
    ) -> Json:
        """It ends at once, then its tokens at the provider, unless `revoke` is False."""
        return self._loop.run(self._client.delete_connection(provider_config_key, connection_id, revoke=revoke))

    def get_metadata(self, provider_config_key: str | None = None, connection_id: str | None = None) -> Json:
        """What was kept with the connection; empty if nothing was."""
        return self._loop.run(self._client.get_metadata(provider_config_key, connection_id))

    def set_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Replace what is kept with the connection, or with several at once."""
        self._loop.run(self._client.set_metadata(metadata, provider_config_key, connection_id))

    def update_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """The same, but other top-level members stay as they are."""
        self._loop.run(self._client.update_metadata(metadata, provider_config_key, connection_id))

    def create_connect_session(self, **session: Unpack[Session]) -> Json:
        """A session of 30 minutes for one end user: `token`, `connect_link` (send the user there), `expires_at`."""
        return self._loop.run(self._client.create_connect_session(**session))

    def complete_connect_session(self, session_id: str, code_verifier: str, connection_id: str | None = None) -> Json:
        """Store what the end user has connected under a session with a `code_challenge`: `status` and `connections`."""
        return self._loop.run(self._client.complete_connect_session(session_id, code_verifier, connection_id))

    def create_reconnect_session(
        self, provider_config_key: str | None = None, connection_id: str | None = None, **session: Unpack[Session]
    ) -> Json:
        """The same, to authorize an existing connection anew; it keeps its id."""
        return self._loop.run(self._client.create_reconnect_session(provider_config_key, connection_id, **session))

    def list_integrations(self) -> list[Json]:
        """All of the environment."""
        return self._loop.run(self._client.list_integrations())

    def get_integration(self, provider_config_key: str | None = None, *, include: Sequence[str] = ()) -> Json:
        """One of them, with "webhook" or "credentials" where `include` names these."""
        return self._loop.run(self._client.get_integration(provider_config_key, include=include))

    def create_integration(self, provider: str, unique_key: str | None = None, **more: Unpack[Configured]) -> Json:
        """Make one of a catalog entry, under its name if not under `unique_key`."""
        return self._loop.run(self._client.create_integration(provider, unique_key, **more))

    def update_integration(
        self, provider_config_key: str | None = None, *, unique_key: str | None = None, **changes: Unpack[Configured]
    ) -> Json:
        """Change what is given; `unique_key` renames it. Not one that gateway.yaml declares."""
        return self._loop.run(self._client.update_integration(provider_config_key, unique_key=unique_key, **changes))

    def delete_integration(self, provider_config_key: str) -> Json:
        """It and its connections, whose tokens are ended at the provider."""
        return self._loop.run(self._client.delete_integration(provider_config_key))

    def list_providers(
        self, search: str | None = None, *, category: str | None = None, auth_mode: str | None = None
    ) -> list[Json]:
        """The catalog's entries that fit all of it."""
        return self._loop.run(self._client.list_providers(search, category=category, auth_mode=auth_mode))

    def get_provider(self, name: str) -> Json:
        """A catalog entry."""
        return self._loop.run(self._client.get_provider(name))

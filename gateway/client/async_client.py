"""The client for asyncio. The blocking client is a wrapper around this client."""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, Unpack

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gateway.client import calls
from gateway.client.calls import (
    ApiCall,
    Body,
    ConnectSessionCall,
    Filters,
    ImportedConnection,
    IntegrationFields,
    Json,
    Options,
    endpoint_path,
    header_fields,
    proxied_url,
)
from gateway.client.client_errors import checked_base_url, checked_key, refusal, unreachable_error
from gateway.client.client_response import AsyncStream, Response
from gateway.client.listed_pages import AsyncPages

# ── A request body that is generated during the upload.


class UploadedBody:
    """A request body from the pieces of an iterable.

    An iterable that is not asynchronous is read in a thread, so that it does not block the event loop. `fault`: the
    exception that the iterable raised, because aiohttp would report it only as a broken connection; None: no exception.
    """

    def __init__(self, source: Iterable[bytes] | AsyncIterable[bytes]) -> None:
        self._source = source
        self.fault: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        source = self._source
        try:
            async for piece in source if isinstance(source, AsyncIterable) else _read_in_thread(source):
                if piece:
                    yield piece
        except Exception as fault:
            self.fault = fault
            raise


def body_for_aiohttp(body: Body) -> Any:
    """Return `body` as a type that aiohttp accepts."""
    if isinstance(body, bytes | bytearray | memoryview | str | Mapping) or hasattr(body, "read"):
        return body
    return UploadedBody(body)


async def _read_in_thread(source: Iterable[bytes]) -> AsyncIterator[bytes]:
    pieces = iter(source)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


# ── The client: calls to providers, and the gateway's own API (connections, connect sessions, integrations).

PAGE_SIZE: Final = 500


USER_AGENT: Final = "integration-gateway-python"
ERROR_HEADER: Final = "Gateway-Error"


class AsyncClient:
    """The client for asyncio. Open the client with ``async with``, or call `close` at the end.

    `base_url`: the gateway's URL. `provider_config_key`, `connection_id`: defaults for all calls; None: each call must
    name them. `silence_s`: a call fails if nothing is received for this many seconds; None: no limit. `connect_s`: the
    maximum time to connect, in seconds. Raises ValueError for an invalid `base_url` or `secret_key`.
    """

    def __init__(
        self,
        base_url: str,
        secret_key: str,
        *,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        silence_s: float | None = 150.0,
        connect_s: float = 10.0,
    ) -> None:
        self._base_url = checked_base_url(base_url)
        self._authorization = f"Bearer {checked_key(secret_key)}"
        self._defaults: Options = {}
        if provider_config_key is not None:
            self._defaults["provider_config_key"] = provider_config_key
        if connection_id is not None:
            self._defaults["connection_id"] = connection_id
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=silence_s)
        # One session per event loop. A session of another loop comes from before a fork or from an earlier asyncio.run;
        # this loop must not use or close it.
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base_url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _fault: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the client's network connections. Calls in flight fail."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    # ── a provider's API ────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, endpoint: str, **options: Unpack[Options]) -> Response:
        """Send a ``GET`` to the provider's `endpoint`.

        All methods that send a call raise GatewayError, Unreachable or CutShort.
        """
        return await self.request("GET", endpoint, **options)

    async def post(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return await self.request("POST", endpoint, **options)

    async def put(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return await self.request("PUT", endpoint, **options)

    async def patch(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return await self.request("PATCH", endpoint, **options)

    async def delete(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return await self.request("DELETE", endpoint, **options)

    async def head(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return await self.request("HEAD", endpoint, **options)

    async def options(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return await self.request("OPTIONS", endpoint, **options)

    async def request(self, method: str, endpoint: str, **options: Unpack[Options]) -> Response:
        """Return the provider's whole response, whatever its status. Redirects are not followed."""
        async with self.stream(method, endpoint, **options) as response:
            return await response.whole()

    @asynccontextmanager
    async def stream(self, method: str, endpoint: str, **options: Unpack[Options]) -> AsyncIterator[AsyncStream]:
        """Yield the provider's response as soon as its head has arrived.

        Leaving the block early aborts the response.
        """
        call_options: Options = {**self._defaults, **options}
        url = proxied_url(self._base_url, endpoint, call_options.get("params"))
        body: dict[str, Any] = {"json": call_options["json"]} if "json" in call_options else {}
        if "data" in call_options:
            body["data"] = body_for_aiohttp(call_options["data"])
        async with self._send(method, url, header_fields(call_options), **body) as response:
            yield response

    def paginate(
        self,
        endpoint: str,
        *,
        pages: int | None = None,
        limit: int | None = None,
        way: Mapping[str, str | int] | None = None,
        since: str | None = None,
        behind: int = 0,
        resumes: int = 5,
        longest_wait_s: float = 300.0,
        loads: Callable[[bytes], Any] = json.loads,
        **options: Unpack[Options],
    ) -> AsyncPages:
        """Return the records of a whole list (docs/pagination.md). The result can be iterated over only once.

        `pages`: the maximum number of pages; None: all. `limit`: the number of records per page; None: the entry's or
        the provider's default. `way`: the settings of the pagination; None: the catalog entry states them. `since`,
        `behind`: the values of `cursor` and `behind` after an earlier iteration, to continue after its last record.
        `resumes`: how often in a row an interrupted list is continued without a new record. `longest_wait_s`: the
        longest wait in seconds that the provider or the gateway may demand before the list is continued. `loads`: the
        function that parses a record.

        Raises ValueError for an absolute URL. The iteration raises ProviderError, PagingBroken, GatewayError,
        Unreachable or CutShort.
        """
        endpoint_path(self._base_url, endpoint)

        def send(headers: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncStream]:
            call_options: Options = {**options, "headers": {**options.get("headers", {}), **headers}}
            return self.stream("GET", endpoint, **call_options)

        return AsyncPages(
            send,
            pages=pages,
            limit=limit,
            way=way,
            since=since,
            behind=behind,
            resumes=resumes,
            longest_wait_s=longest_wait_s,
            loads=loads,
        )

    # ── The gateway's own API ──────────────────────────────────────────────────────────────────────────────────────

    async def _call_api(self, call: ApiCall) -> Any:
        body = {} if call.body is None else {"json": call.body}
        async with self._send(call.method, self._base_url + call.target, {}, **body) as stream:
            response = await stream.whole()
        if not 200 <= response.status < 300:
            raise refusal(response)
        try:
            return response.json()
        except ValueError as fault:
            raise refusal(response) from fault

    @asynccontextmanager
    async def _send(self, method: str, url: str, headers: Mapping[str, str], **body: Any) -> AsyncIterator[AsyncStream]:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = aiohttp.ClientSession(
                headers={"User-Agent": USER_AGENT}, cookie_jar=aiohttp.DummyCookieJar(), timeout=self._timeout
            )
        all_headers = CIMultiDict(headers)
        all_headers["Authorization"] = self._authorization
        encoded_url = URL(url, encoded=True)
        try:
            response = await session.request(method, encoded_url, headers=all_headers, allow_redirects=False, **body)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as fault:
            upload = body.get("data")
            if isinstance(upload, UploadedBody) and upload.fault is not None:
                raise upload.fault from None
            raise unreachable_error(self._base_url, fault) from fault
        async with response:
            stream = AsyncStream(response)
            if ERROR_HEADER in response.headers:
                raise refusal(await stream.whole())
            yield stream

    async def get_connection(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        *,
        force_refresh: bool = False,
        refresh_token: bool = False,
        history: bool = False,
    ) -> Json:
        """Return the connection with its credentials.

        The gateway first refreshes a token that expires soon. Regular calls also keep the refresh token from expiring.
        `force_refresh`: whether to refresh the token in any case. `refresh_token`: whether to return the refresh token.
        `history`: whether to return the history of the connection.
        """
        key, resolved_id = self._key_and_connection_id(provider_config_key, connection_id)
        call = calls.connection(
            key, resolved_id, force_refresh=force_refresh, refresh_token=refresh_token, history=history
        )
        return await self._json(call)

    async def list_connections(self, **filters: Unpack[Filters]) -> AsyncIterator[Json]:
        """Yield all connections that match the filters, the newest first, without their credentials.

        The client requests the next page of 500 connections when the iteration needs it.
        """
        cursor: str | None = None
        while True:
            page = await self._json(calls.connections(filters, PAGE_SIZE, cursor))
            for connection in page["connections"]:
                yield connection
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def import_connection(
        self,
        credentials: Mapping[str, Any],
        provider_config_key: str | None = None,
        **fields: Unpack[ImportedConnection],
    ) -> Json:
        """Import a credential that you have, such as ``{"type": "API_KEY", "apiKey": "…"}``; return the connection.

        If the connection exists, its credential is replaced. `fields`: further members of the connection; without a
        `connection_id`, the client's default applies.
        """
        default_id = self._defaults.get("connection_id")
        if default_id is not None:
            fields.setdefault("connection_id", default_id)
        return await self._json(calls.import_connection_call(self._key(provider_config_key), credentials, fields))

    async def update_connection(
        self,
        changes: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | None = None,
    ) -> None:
        """Change `end_user`, `tags` or `webhook_url_override` of the connection.

        New `tags` replace all earlier tags.
        """
        await self._call_api(
            calls.update_connection_call(*self._key_and_connection_id(provider_config_key, connection_id), changes)
        )

    async def delete_connection(
        self, provider_config_key: str | None = None, connection_id: str | None = None, *, revoke: bool = True
    ) -> Json:
        """Delete the connection; if `revoke` is true, also revoke its tokens at the provider.

        The returned `revocation` has the result for each token.
        """
        return await self._json(
            calls.delete_connection_call(
                *self._key_and_connection_id(provider_config_key, connection_id), revoke=revoke
            )
        )

    async def get_metadata(self, provider_config_key: str | None = None, connection_id: str | None = None) -> Json:
        """Return the connection's metadata; an empty dictionary if the connection has no metadata."""
        metadata: Json | None = (await self.get_connection(provider_config_key, connection_id))["metadata"]
        return metadata or {}

    async def set_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Replace the metadata of one or several connections. If an id is unknown, nothing is changed."""
        await self._call_api(self._metadata_call(metadata, provider_config_key, connection_id, merge=False))

    async def update_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Change the given top-level members of the metadata of one or several connections, and keep all other members.

        If an id is unknown, nothing is changed.
        """
        await self._call_api(self._metadata_call(metadata, provider_config_key, connection_id, merge=True))

    async def create_connect_session(self, **session: Unpack[ConnectSessionCall]) -> Json:
        """Create a connect session for one end user, valid for 30 minutes or `expires_in` seconds.

        Return `token`, `connect_link` and `expires_at`. The end user opens `connect_link` to connect.
        """
        return await self._data(calls.connect_session_call(session))

    async def complete_connect_session(
        self, session_id: str, code_verifier: str, connection_id: str | None = None
    ) -> Json:
        """Store the pending connections of a session with a `code_challenge`. Return `status` and `connections`.

        Call this method after the end user, who is signed in to your application, has returned. The call is idempotent.
        `session_id`: the session's id, from the session or from the verified result. `connection_id`: the id in the
        verified result; only this connection is stored. If `connection_id` is None and several connections are pending,
        the call raises GatewayError with the code ``connection_id_required``.
        """
        return await self._data(calls.complete_session_call(session_id, code_verifier, connection_id))

    async def create_reconnect_session(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        **session: Unpack[ConnectSessionCall],
    ) -> Json:
        """Create a connect session with which the end user authorizes an existing connection again.

        The connection keeps its id.
        """
        return await self._data(
            calls.reconnect_session_call(*self._key_and_connection_id(provider_config_key, connection_id), session)
        )

    async def list_integrations(self) -> list[Json]:
        """Return all integrations of the environment."""
        integrations: list[Json] = (await self._call_api(calls.integrations()))["data"]
        return integrations

    async def get_integration(self, provider_config_key: str | None = None, *, include: Sequence[str] = ()) -> Json:
        """Return one integration.

        `include`: further parts to return. "webhook": the URL for the provider's webhooks. "credentials": the OAuth
        app.
        """
        return await self._data(calls.integration(self._key(provider_config_key), include))

    async def create_integration(
        self, provider: str, unique_key: str | None = None, **fields: Unpack[IntegrationFields]
    ) -> Json:
        """Create an integration for a provider. Other nodes use the new integration shortly after.

        `provider`: the name of the catalog entry. `unique_key`: the integration's id; None: the name of the entry.
        """
        return await self._data(calls.create_integration_call(provider, unique_key, fields))

    async def update_integration(
        self,
        provider_config_key: str | None = None,
        *,
        unique_key: str | None = None,
        **changes: Unpack[IntegrationFields],
    ) -> Json:
        """Change the given members of the integration. An integration in gateway.yaml cannot be changed.

        `unique_key`: the new id of the integration; None: the id stays.
        """
        return await self._data(calls.change_integration_call(self._key(provider_config_key), changes, unique_key))

    async def delete_integration(self, provider_config_key: str) -> Json:
        """Delete the integration and its connections, and revoke the connections' tokens at the provider.

        The returned `connections` has the number of deleted connections, and the number of tokens by result. If the
        integration had no connections, `connections` is missing.
        """
        return await self._json(calls.delete_integration_call(provider_config_key))

    async def list_providers(
        self, search: str | None = None, *, category: str | None = None, auth_mode: str | None = None
    ) -> list[Json]:
        """Return the catalog entries that match all filters.

        `search`: words that must occur in the name, display name or categories; None: no such filter.
        """
        providers: list[Json] = (await self._call_api(calls.providers(search, category, auth_mode)))["data"]
        return providers

    async def get_provider(self, name: str) -> Json:
        """Return the catalog entry with this name."""
        return await self._data(calls.provider(name))

    async def _json(self, call: ApiCall) -> Json:
        body: Json = await self._call_api(call)
        return body

    async def _data(self, call: ApiCall) -> Json:
        return (await self._json(call))["data"]  # type: ignore[no-any-return]

    def _key(self, call_key: str | None) -> str:
        key = call_key or self._defaults.get("provider_config_key")
        if not key:
            raise ValueError("provider_config_key is missing: give it to the call, or to the client for all calls")
        return key

    def _key_and_connection_id(self, key: str | None, connection_id: str | None) -> tuple[str, str]:
        options: Options = {**self._defaults}
        if key is not None:
            options["provider_config_key"] = key
        if connection_id is not None:
            options["connection_id"] = connection_id
        headers = header_fields(options)
        return headers["Provider-Config-Key"], headers["Connection-Id"]

    def _metadata_call(
        self, metadata: Mapping[str, Any], key: str | None, connection_id: str | Sequence[str] | None, *, merge: bool
    ) -> ApiCall:
        if connection_id is None or isinstance(connection_id, str):
            key, connection_id = self._key_and_connection_id(key, connection_id)
        return calls.metadata(self._key(key), connection_id, metadata, merge=merge)

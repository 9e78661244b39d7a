"""The client for programs without asyncio: it runs `AsyncClient` in a separate thread."""

import asyncio
import concurrent.futures
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from gateway.client.async_client import AsyncClient
from gateway.client.calls import ConnectSessionCall, Filters, ImportedConnection, IntegrationFields, Json, Options
from gateway.client.client_errors import Unreachable
from gateway.client.client_response import AsyncStream, Response
from gateway.client.listed_pages import AsyncPages

# ── The event loop, which runs in its own thread.

T = TypeVar("T")


class Loop:
    """An event loop in a daemon thread. The thread starts at the first use, and again in each forked process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: garbage collection can end an iterator, which calls `run`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop and return its result. Raises Unreachable if the loop is stopped during `work`."""
        with self._lock:  # so that `stop` either cancels this call, or the call runs in a new loop
            future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Unreachable("the client was closed during this call", "the client was closed") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items; each item is fetched when the iteration needs it.

        If the iteration ends early, close `items`.
        """
        end = object()

        async def next_item() -> Any:
            return await anext(items, end)

        async def close() -> None:
            await items.aclose()  # type: ignore[attr-defined]

        try:
            while (item := self.run(next_item())) is not end:
                yield item
        finally:
            # A stopped loop has already closed `items`. If a garbage collection in the loop's own thread ends this
            # iterator, waiting here would never end. In this case the loop closes `items` itself, because nothing
            # refers to `items`.
            if self.runs_in_this_process and threading.current_thread() is not self._thread:
                self.run(close())

    @property
    def runs_in_this_process(self) -> bool:
        return self._loop is not None and self._pid == os.getpid()

    def stop(self) -> None:
        """End the loop and its thread. Calls that still run in other threads raise Unreachable."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and self._pid == os.getpid():
            asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), loop).result()
            asyncio.run_coroutine_threadsafe(
                loop.shutdown_asyncgens(), loop
            ).result()  # closes the responses of streams that are still open
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._pid != os.getpid():
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="gateway-client", daemon=True)
            self._thread.start()
            self._pid = os.getpid()
        return self._loop


async def _cancel_other_tasks() -> None:
    """Cancel all other tasks of this loop and wait for their end.

    Without the cancellation, the callers of these tasks would wait forever after the loop has stopped.
    """
    other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in other_tasks:
        task.cancel()
    await asyncio.gather(*other_tasks, return_exceptions=True)


# ── The client, and its streams and pages.


class Stream:
    """A streamed response: status and headers have arrived, and the body follows.

    Iterate over the response to get the pieces of its body as they arrive, or over `lines()` to get lines.
    """

    def __init__(self, stream: AsyncStream, loop: Loop) -> None:
        self._stream = stream
        self._loop = loop
        self.status, self.reason, self.headers = stream.status, stream.reason, stream.headers
        self.ok, self.request_id = stream.ok, stream.request_id

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces of the body as they arrive. Raises CutShort."""
        return self._loop.iterate(aiter(self._stream))

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the body, each without the "\\n" at its end; the last line may have none. Raises CutShort."""
        for batch in self._loop.iterate(self._stream.several_lines()):
            yield from batch

    def whole(self) -> Response:
        """Return the response with its body.

        If parts of the body were read before, these are missing. Raises CutShort.
        """
        return self._loop.run(self._stream.whole())


class Pages:
    """The records of a list. An instance can be iterated over only once.

    `cursor`, `behind`: the values for `since` and `behind` of another call, which continues the list after the last
    returned record. `complete`: whether the provider has no more records.
    """

    def __init__(self, pages: AsyncPages, loop: Loop) -> None:
        self._pages = pages
        self._loop = loop

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loop.iterate(self._pages.uncounted_batches()):
            for record in batch:
                self._pages.count(1)
                yield record

    @property
    def cursor(self) -> str | None:
        return self._pages.cursor

    @property
    def behind(self) -> int:
        return self._pages.behind

    @property
    def complete(self) -> bool:
        return self._pages.complete


class Client:
    """The client for programs without asyncio. Open the client with ``with``, or call `close` at the end.

    The arguments and methods are the same as in `AsyncClient`.
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
        self._loop = Loop()
        self._client = AsyncClient(
            base_url,
            secret_key,
            provider_config_key=provider_config_key,
            connection_id=connection_id,
            silence_s=silence_s,
            connect_s=connect_s,
        )

    def __repr__(self) -> str:
        return repr(self._client).removeprefix("Async")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _fault: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client's network connections and stop its thread. Calls that run in other threads fail."""
        if self._loop.runs_in_this_process:
            self._loop.run(self._client.close())
            self._loop.stop()

    # ── a provider's API ────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, endpoint: str, **options: Unpack[Options]) -> Response:
        """Send a ``GET`` to the provider's `endpoint`.

        All methods that send a call raise GatewayError, Unreachable or CutShort.
        """
        return self.request("GET", endpoint, **options)

    def post(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return self.request("POST", endpoint, **options)

    def put(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return self.request("PUT", endpoint, **options)

    def patch(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return self.request("PATCH", endpoint, **options)

    def delete(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return self.request("DELETE", endpoint, **options)

    def head(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return self.request("HEAD", endpoint, **options)

    def options(self, endpoint: str, **options: Unpack[Options]) -> Response:
        return self.request("OPTIONS", endpoint, **options)

    def request(self, method: str, endpoint: str, **options: Unpack[Options]) -> Response:
        """Return the provider's whole response, whatever its status. Redirects are not followed."""
        return self._loop.run(self._client.request(method, endpoint, **options))

    @contextmanager
    def stream(self, method: str, endpoint: str, **options: Unpack[Options]) -> Iterator[Stream]:
        """Yield the provider's response as soon as its head has arrived.

        Leaving the block early aborts the response.
        """
        stream_context = self._client.stream(method, endpoint, **options)
        stream = self._loop.run(stream_context.__aenter__())
        try:
            yield Stream(stream, self._loop)
        finally:
            if self._loop.runs_in_this_process:  # false if the client was closed; then the connection is closed too
                self._loop.run(stream_context.__aexit__(None, None, None))

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
    ) -> Pages:
        """Return the records of a whole list.

        The result can be iterated over only once. `AsyncClient.paginate` describes the arguments.
        """
        listing = self._client.paginate(
            endpoint,
            pages=pages,
            limit=limit,
            way=way,
            since=since,
            behind=behind,
            resumes=resumes,
            longest_wait_s=longest_wait_s,
            loads=loads,
            **options,
        )
        return Pages(listing, self._loop)

    def get_connection(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        *,
        force_refresh: bool = False,
        refresh_token: bool = False,
        history: bool = False,
    ) -> Json:
        """Return the connection with its credentials.

        The gateway first refreshes a token that expires soon, or any token if `force_refresh` is true. `refresh_token`:
        whether to return the refresh token. `history`: whether to return the history of the connection.
        """
        call = self._client.get_connection(
            provider_config_key,
            connection_id,
            force_refresh=force_refresh,
            refresh_token=refresh_token,
            history=history,
        )
        return self._loop.run(call)

    def list_connections(self, **filters: Unpack[Filters]) -> Iterator[Json]:
        """Yield all connections that match the filters, the newest first, without their credentials.

        The client requests the next page of 500 connections when the iteration needs it.
        """
        return self._loop.iterate(self._client.list_connections(**filters))

    def import_connection(
        self,
        credentials: Mapping[str, Any],
        provider_config_key: str | None = None,
        **fields: Unpack[ImportedConnection],
    ) -> Json:
        """Import a credential that you have, such as ``{"type": "API_KEY", "apiKey": "…"}``; return the connection.

        If the connection exists, its credential is replaced.
        """
        return self._loop.run(self._client.import_connection(credentials, provider_config_key, **fields))

    def update_connection(
        self,
        changes: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | None = None,
    ) -> None:
        """Change `end_user`, `tags` or `webhook_url_override` of the connection.

        New `tags` replace all earlier tags.
        """
        self._loop.run(self._client.update_connection(changes, provider_config_key, connection_id))

    def delete_connection(
        self, provider_config_key: str | None = None, connection_id: str | None = None, *, revoke: bool = True
    ) -> Json:
        """Delete the connection; if `revoke` is true, also revoke its tokens at the provider."""
        return self._loop.run(self._client.delete_connection(provider_config_key, connection_id, revoke=revoke))

    def get_metadata(self, provider_config_key: str | None = None, connection_id: str | None = None) -> Json:
        """Return the connection's metadata; an empty dictionary if the connection has no metadata."""
        return self._loop.run(self._client.get_metadata(provider_config_key, connection_id))

    def set_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Replace the metadata of one or several connections. If an id is unknown, nothing is changed."""
        self._loop.run(self._client.set_metadata(metadata, provider_config_key, connection_id))

    def update_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Change the given top-level members of the metadata of one or several connections, and keep all other members.

        If an id is unknown, nothing is changed.
        """
        self._loop.run(self._client.update_metadata(metadata, provider_config_key, connection_id))

    def create_connect_session(self, **session: Unpack[ConnectSessionCall]) -> Json:
        """Create a connect session for one end user, valid for 30 minutes or `expires_in` seconds.

        Return `token`, `connect_link` and `expires_at`. The end user opens `connect_link` to connect.
        """
        return self._loop.run(self._client.create_connect_session(**session))

    def complete_connect_session(self, session_id: str, code_verifier: str, connection_id: str | None = None) -> Json:
        """Store the pending connections of a session with a `code_challenge`. Return `status` and `connections`.

        `AsyncClient.complete_connect_session` describes the arguments.
        """
        return self._loop.run(self._client.complete_connect_session(session_id, code_verifier, connection_id))

    def create_reconnect_session(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        **session: Unpack[ConnectSessionCall],
    ) -> Json:
        """Create a connect session with which the end user authorizes an existing connection again.

        The connection keeps its id.
        """
        return self._loop.run(self._client.create_reconnect_session(provider_config_key, connection_id, **session))

    def list_integrations(self) -> list[Json]:
        """Return all integrations of the environment."""
        return self._loop.run(self._client.list_integrations())

    def get_integration(self, provider_config_key: str | None = None, *, include: Sequence[str] = ()) -> Json:
        """Return one integration.

        `include`: further parts to return. "webhook": the URL for the provider's webhooks. "credentials": the OAuth
        app.
        """
        return self._loop.run(self._client.get_integration(provider_config_key, include=include))

    def create_integration(
        self, provider: str, unique_key: str | None = None, **fields: Unpack[IntegrationFields]
    ) -> Json:
        """Create an integration for a provider.

        `provider`: the name of the catalog entry. `unique_key`: the integration's id; None: the name of the entry.
        """
        return self._loop.run(self._client.create_integration(provider, unique_key, **fields))

    def update_integration(
        self,
        provider_config_key: str | None = None,
        *,
        unique_key: str | None = None,
        **changes: Unpack[IntegrationFields],
    ) -> Json:
        """Change the given members of the integration. An integration in gateway.yaml cannot be changed.

        `unique_key`: the new id of the integration; None: the id stays.
        """
        return self._loop.run(self._client.update_integration(provider_config_key, unique_key=unique_key, **changes))

    def delete_integration(self, provider_config_key: str) -> Json:
        """Delete the integration and its connections, and revoke the connections' tokens at the provider."""
        return self._loop.run(self._client.delete_integration(provider_config_key))

    def list_providers(
        self, search: str | None = None, *, category: str | None = None, auth_mode: str | None = None
    ) -> list[Json]:
        """Return the catalog entries that match all filters."""
        return self._loop.run(self._client.list_providers(search, category=category, auth_mode=auth_mode))

    def get_provider(self, name: str) -> Json:
        """Return the catalog entry with this name."""
        return self._loop.run(self._client.get_provider(name))

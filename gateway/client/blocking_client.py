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

# ── The event loop in its thread.

T = TypeVar("T")


class Loop:
    """An event loop in a daemon thread, started at its first use, and again in a forked process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an iterator that garbage collection ends calls `run`, at any time
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop and return its result. Raises Unreachable if the loop is stopped meanwhile."""
        with self._lock:  # a call started during `stop` is either cancelled by it or runs in a new loop
            future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Unreachable("the client was closed during this call", "the client was closed") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items, each fetched on demand. Leaving the iteration early closes `items`."""
        end = object()

        async def following() -> Any:
            return await anext(items, end)

        async def close() -> None:
            await items.aclose()  # type: ignore[attr-defined]

        try:
            while (item := self.run(following())) is not end:
                yield item
        finally:
            # If the loop was stopped, that has ended `items`. If garbage collection ends this iterator within the
            # loop's own thread, waiting would never end: the loop ends `items` itself once nothing refers to it.
            if self.used_here and threading.current_thread() is not self._thread:
                self.run(close())

    @property
    def used_here(self) -> bool:
        return self._loop is not None and self._pid == os.getpid()

    def stop(self) -> None:
        """End the loop and its thread. Calls that still run in other threads raise Unreachable."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and self._pid == os.getpid():
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
            asyncio.run_coroutine_threadsafe(
                loop.shutdown_asyncgens(), loop
            ).result()  # closes responses of open streams
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._pid != os.getpid():
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="gateway-client", daemon=True)
            self._thread.start()
            self._pid = os.getpid()
        return self._loop


async def _cancel_others() -> None:
    """Cancel all other tasks of this loop and wait for their end: their callers would wait forever once it stops."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


# ── The client, and its streams and pages.


class Stream:
    """A response whose head has arrived. Iterate over it for pieces of its body as they arrive, over `lines()` for
    lines."""

    def __init__(self, stream: AsyncStream, loop: Loop) -> None:
        self._stream = stream
        self._loop = loop
        self.status, self.reason, self.headers = stream.status, stream.reason, stream.headers
        self.ok, self.request_id = stream.ok, stream.request_id

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces of the body as they arrive. Raises CutShort."""
        return self._loop.iterate(aiter(self._stream))

    def lines(self) -> Iterator[bytes]:
        """Yield the lines without line ends, also a last line that has no line end. Raises CutShort."""
        for several in self._loop.iterate(self._stream.several_lines()):
            yield from several

    def whole(self) -> Response:
        """Return the whole response; if some of its body was read before, the rest. Raises CutShort."""
        return self._loop.run(self._stream.whole())


class Pages:
    """Records, to be iterated over once. `cursor`, `behind` and `complete` are those of `AsyncPages`."""

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
    """`AsyncClient` without ``async``. Open it with ``with``, or close it when done."""

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
        """Close the client's connections and stop its thread; calls in other threads fail."""
        if self._loop.used_here:
            self._loop.run(self._client.close())
            self._loop.stop()

    # ── a provider's API ────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, endpoint: str, **options: Unpack[Options]) -> Response:
        """Send a ``GET`` to the provider's `endpoint`. This and all other calls raise GatewayError, Unreachable,
        CutShort."""
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
        """Yield the provider's response as soon as its head has arrived; leaving the block early aborts it."""
        opened = self._client.stream(method, endpoint, **options)
        stream = self._loop.run(opened.__aenter__())
        try:
            yield Stream(stream, self._loop)
        finally:
            if self._loop.used_here:  # false after the client was closed, which has closed the connection
                self._loop.run(opened.__aexit__(None, None, None))

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
        """Return the records of a whole list, like `AsyncClient.paginate`."""
        asked = self._client.paginate(
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
        return Pages(asked, self._loop)

    def get_connection(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        *,
        force_refresh: bool = False,
        refresh_token: bool = False,
        history: bool = False,
    ) -> Json:
        """Return the connection with its credentials, refreshed if due or if `force_refresh` is set."""
        asked = self._client.get_connection(
            provider_config_key,
            connection_id,
            force_refresh=force_refresh,
            refresh_token=refresh_token,
            history=history,
        )
        return self._loop.run(asked)

    def list_connections(self, **filters: Unpack[Filters]) -> Iterator[Json]:
        """Yield all connections that match, newest first, without credentials; fetched on demand, 500 per page."""
        return self._loop.iterate(self._client.list_connections(**filters))

    def import_connection(
        self, credentials: Mapping[str, Any], provider_config_key: str | None = None, **more: Unpack[ImportedConnection]
    ) -> Json:
        """Import a credential that you have: ``{"type": "API_KEY", "apiKey": "…"}``. An existing connection is
        replaced."""
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
        """Delete the connection, then revoke its tokens at the provider, unless `revoke` is False."""
        return self._loop.run(self._client.delete_connection(provider_config_key, connection_id, revoke=revoke))

    def get_metadata(self, provider_config_key: str | None = None, connection_id: str | None = None) -> Json:
        """Return the connection's metadata; empty if there is none."""
        return self._loop.run(self._client.get_metadata(provider_config_key, connection_id))

    def set_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Replace the metadata of one or several connections; all or nothing: fails if any id is unknown."""
        self._loop.run(self._client.set_metadata(metadata, provider_config_key, connection_id))

    def update_metadata(
        self,
        metadata: Mapping[str, Any],
        provider_config_key: str | None = None,
        connection_id: str | Sequence[str] | None = None,
    ) -> None:
        """Change the given top-level members of the metadata, and keep the others; otherwise like `set_metadata`."""
        self._loop.run(self._client.update_metadata(metadata, provider_config_key, connection_id))

    def create_connect_session(self, **session: Unpack[ConnectSessionCall]) -> Json:
        """Create a connect session for one end user, like `AsyncClient.create_connect_session`. Return `token`,
        `connect_link` (send the user there) and `expires_at`."""
        return self._loop.run(self._client.create_connect_session(**session))

    def complete_connect_session(self, session_id: str, code_verifier: str, connection_id: str | None = None) -> Json:
        """Store the pending connections of a session with a `code_challenge`. Return `status` and `connections`."""
        return self._loop.run(self._client.complete_connect_session(session_id, code_verifier, connection_id))

    def create_reconnect_session(
        self,
        provider_config_key: str | None = None,
        connection_id: str | None = None,
        **session: Unpack[ConnectSessionCall],
    ) -> Json:
        """Create a connect session that authorizes an existing connection again; the connection keeps its id."""
        return self._loop.run(self._client.create_reconnect_session(provider_config_key, connection_id, **session))

    def list_integrations(self) -> list[Json]:
        """Return all integrations of the environment."""
        return self._loop.run(self._client.list_integrations())

    def get_integration(self, provider_config_key: str | None = None, *, include: Sequence[str] = ()) -> Json:
        """Return one integration, with "webhook" or "credentials" if `include` names them."""
        return self._loop.run(self._client.get_integration(provider_config_key, include=include))

    def create_integration(
        self, provider: str, unique_key: str | None = None, **more: Unpack[IntegrationFields]
    ) -> Json:
        """Create an integration of a catalog entry; `unique_key` defaults to the entry's name."""
        return self._loop.run(self._client.create_integration(provider, unique_key, **more))

    def update_integration(
        self,
        provider_config_key: str | None = None,
        *,
        unique_key: str | None = None,
        **changes: Unpack[IntegrationFields],
    ) -> Json:
        """Change the given members; `unique_key` renames the integration. Integrations in gateway.yaml cannot be
        changed."""
        return self._loop.run(self._client.update_integration(provider_config_key, unique_key=unique_key, **changes))

    def delete_integration(self, provider_config_key: str) -> Json:
        """Delete the integration and its connections, and revoke their tokens at the provider."""
        return self._loop.run(self._client.delete_integration(provider_config_key))

    def list_providers(
        self, search: str | None = None, *, category: str | None = None, auth_mode: str | None = None
    ) -> list[Json]:
        """Return the catalog entries that match all filters."""
        return self._loop.run(self._client.list_providers(search, category=category, auth_mode=auth_mode))

    def get_provider(self, name: str) -> Json:
        """Return a catalog entry."""
        return self._loop.run(self._client.get_provider(name))

"""Calls the API of another gateway, with retries. The other gateway is Nango, or another instance of this gateway."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from gateway import clock
from gateway.config.values import is_loopback
from gateway.errors import GatewayError
from gateway.http.retry import seconds_until
from gateway.http.strict_json import parse
from gateway.moving.moved_connection import MovedConnection, SourceRefused, UnusableConnection, parse_connection
from gateway.records.connection import ImportedHistory
from gateway.records.states import ENDED
from gateway.secret import Secret
from gateway.timestamps import parse_time

# ── Requests to the other gateway's API. A request is repeated after a temporary error. Other errors are raised.

MAX_TRIES: Final = 6
FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 60.0
MAX_RETRY_AFTER_S: Final = 900.0  # maximum seconds to wait if the response has Retry-After
MAX_RESPONSE_BYTES: Final = 64 << 20
TIMEOUT: Final = aiohttp.ClientTimeout(total=120, sock_connect=15)
TRANSIENT_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})


class PeerRespondedError(Exception):
    """The other gateway returned an error for this request. `code` and `message` come from its response."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class PeerUnreachable(Exception):
    """The other gateway returned no usable response in `MAX_TRIES` attempts."""


class PeerCalls:
    """Calls another gateway's API.

    The key is sent only to the URL `base`: redirects are not followed. A Retry-After delays all calls, not only the
    refused one.
    """

    def __init__(self, session: aiohttp.ClientSession, base: str, key: Secret, *, plain_http: bool = False) -> None:
        """Create the object. Raises SourceRefused if the key must not be sent to `base`.

        `plain_http`: whether the key can be sent without encryption.
        """
        self._session = session
        self._base = checked_base(base, plain_http=plain_http)
        self._key = key
        self._not_before = 0.0

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Send a GET request and return the JSON of the response. `path`: the path, percent-encoded.

        Raises PeerRespondedError or PeerUnreachable. Raises SourceRefused for an error that every other request would
        also get, such as a wrong key.
        """
        reason = ""
        for attempt in range(MAX_TRIES):
            await self._wait()
            try:
                status, headers, raw_body = await self._request(path, query or {})
            except (aiohttp.ClientError, TimeoutError) as fault:
                reason = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
                await self._pause(attempt, None)
                continue
            if status == 200:
                return self._parse_body(raw_body)
            code, message = _error(raw_body)
            self._check_key(status, code, message, headers)
            if status not in TRANSIENT_STATUSES or code == "invalid_credentials":
                raise PeerRespondedError(status, code, message or f"it responded with status {status}")
            reason = f"it responded with status {status} {code}".rstrip()
            await self._pause(attempt, headers.get("Retry-After"))
        url_path = path.partition("?")[0]
        raise PeerUnreachable(
            f"{self._base} returned no usable response to GET {url_path} in {MAX_TRIES} tries: {reason}"
        )

    async def _request(self, path: str, query: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        url = URL(self._base + path, encoded=True).update_query(query)
        headers = {"Authorization": f"Bearer {self._key.reveal()}", "Accept": "application/json"}
        async with self._session.get(url, headers=headers, allow_redirects=False, timeout=TIMEOUT) as response:
            raw_body = bytearray()
            async for piece in response.content.iter_chunked(1 << 16):
                raw_body += piece
                if len(raw_body) > MAX_RESPONSE_BYTES:
                    raise SourceRefused(
                        f"The response of {self._base}{path} is larger than {MAX_RESPONSE_BYTES >> 20} MiB."
                    )
            return response.status, response.headers, bytes(raw_body)

    def _parse_body(self, raw_body: bytes) -> Any:
        try:
            return parse(raw_body)
        except GatewayError:
            raise SourceRefused(
                f"{self._base} did not return JSON. Give the URL of its API, not of its dashboard."
            ) from None

    def _check_key(self, status: int, code: str, message: str, headers: Mapping[str, str]) -> None:
        if status == 401:
            raise SourceRefused(f"{self._base} does not accept this key ({code or 401}): {message}".rstrip(": "))
        if status == 403:
            problem = f"{self._base} denies access with this key ({code or 403}): {message}".rstrip(": .")
            raise SourceRefused(f"{problem}. Use a key that can read integrations, connections and credentials.")
        if 300 <= status < 400:
            location = headers.get("Location", "another URL")
            raise SourceRefused(f"{self._base} redirects to {location[:200]}. Give the URL of the API itself.")

    async def _wait(self) -> None:
        while (remaining_s := self._not_before - clock.monotonic()) > 0:
            await clock.sleep(remaining_s)

    async def _pause(self, attempt: int, retry_after: str | None) -> None:
        if attempt == MAX_TRIES - 1:
            return
        pause_s = seconds_until(retry_after, clock.now()) if retry_after else None
        if pause_s is not None:
            self._not_before = max(self._not_before, clock.monotonic() + min(pause_s, MAX_RETRY_AFTER_S))
            return
        longest_s = min(FIRST_WAIT_S * 2**attempt, MAX_WAIT_S)
        await clock.sleep(random.uniform(longest_s / 2, longest_s))  # noqa: S311 (spreads load only)


def checked_base(base: str, *, plain_http: bool) -> str:
    """Return the URL `base` without a final slash.

    Raises SourceRefused if `base` is not the URL of an API, or if the key would be sent without encryption, unless
    `plain_http` allows this or the host is loopback.
    """
    try:
        url = URL(base)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment or url.user:
        raise SourceRefused(f"'{base}' is not the URL of an API, such as https://api.example.com.")
    if url.scheme == "http" and not plain_http and not is_loopback(url.host):
        raise SourceRefused(
            f"{base} is plain http, so the key and all tokens would be sent unencrypted. Give an https URL, or "
            "--plain-http if the network to it is private."
        )
    return str(url).rstrip("/")


def _error(raw_body: bytes) -> tuple[str, str]:
    """Return the code and the message of an error response. A missing code or message is an empty text."""
    try:
        body = parse(raw_body)
    except GatewayError:
        return "", ""
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, str):
        return error[:64], ""
    if not isinstance(error, dict):
        return "", ""
    return str(error.get("code") or "")[:64], str(error.get("message") or "")[:500]


def session_for(at_once: int) -> aiohttp.ClientSession:
    """Return a session without cookies for `PeerCalls`. The caller must close it.

    `at_once`: the maximum number of open network connections.
    """
    connector = aiohttp.TCPConnector(limit=at_once)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


PAGE_SIZE: Final = 1000
INVALID_CREDENTIALS: Final = "invalid_credentials"


@dataclass(frozen=True, slots=True)
class PeerConnection:
    """A row of the other gateway's list of connections. `broken`: whether the row reports an invalid credential."""

    integration_id: str
    connection_id: str
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerIntegration:
    """An integration of the other gateway.

    `credentials`: the integration's client or app; None if the key is not allowed to read credentials, or if the
    integration has none.
    """

    integration_id: str
    provider: str
    display_name: str | None = None
    forward_webhooks: bool = True
    allowed_hosts: Sequence[str] = ()
    allow_unsigned_webhooks: bool = False
    credentials: Mapping[str, Any] | None = field(default=None, repr=False)


class Peer:
    """Another gateway from which connections are imported.

    The methods raise SourceRefused if the gateway cannot be read at all. `connection` raises UnusableConnection if a
    single connection cannot be read.
    """

    def __init__(self, calls: PeerCalls) -> None:
        self._calls = calls

    async def integrations(self, integration_ids: Collection[str] = ()) -> list[PeerIntegration]:
        """Return the other gateway's integrations. Credentials are included if the key is allowed to read credentials.

        `integration_ids`: the keys of the integrations to return; empty: all integrations.
        """
        members = _list_member(await self._get("/integrations"), "data")
        keys = [
            str(integration["unique_key"])
            for integration in members
            if isinstance(integration, dict) and integration.get("unique_key")
        ]
        return [await self._integration(key) for key in keys if not integration_ids or key in integration_ids]

    async def _integration(self, key: str) -> PeerIntegration:
        body = await self._get(f"/integrations/{quote(key, safe='')}", {"include": "credentials"})
        integration = body.get("data") if isinstance(body, dict) else None
        if not isinstance(integration, dict) or not isinstance(integration.get("provider"), str):
            raise SourceRefused(
                f"Integration '{key}' of the other gateway has no provider. Check that this is the URL of the API."
            )
        credentials = integration.get("credentials")
        return PeerIntegration(
            integration_id=key,
            provider=integration["provider"],
            display_name=integration.get("display_name") if isinstance(integration.get("display_name"), str) else None,
            forward_webhooks=integration.get("forward_webhooks") is not False,
            allowed_hosts=integration.get("allowed_hosts") or (),
            allow_unsigned_webhooks=integration.get("allow_unsigned_webhooks") is True,
            credentials=credentials if isinstance(credentials, dict) else None,
        )

    async def auth_mode(self, provider: str) -> str | None:
        """Return the auth mode of `provider` in the other gateway's catalog; None if it is unknown or cannot be read."""
        try:
            body = await self._calls.get(f"/providers/{quote(provider, safe='')}")
        except (PeerRespondedError, PeerUnreachable, SourceRefused):
            return None
        entry = body.get("data") if isinstance(body, dict) else None
        mode = entry.get("auth_mode") if isinstance(entry, dict) else None
        return mode if isinstance(mode, str) else None

    async def list_connections(self, integration_ids: Collection[str] = ()) -> Sequence[PeerConnection]:
        """Return every connection without duplicates, the oldest connection first.

        `integration_ids`: the keys of the integrations; empty: all integrations. All pages of the list are read before
        the first connection is read. Otherwise a connection that is created or deleted meanwhile would shift the pages,
        because pages are counted from the newest connection. A page of this gateway can end before `PAGE_SIZE` rows;
        its `next_cursor` then continues the list. Nango has no cursors.
        """
        connections: dict[tuple[str, str], PeerConnection] = {}
        query = {"limit": str(PAGE_SIZE)} | (
            {"integrationId": ",".join(sorted(integration_ids))} if integration_ids else {}
        )
        page_number, position_query = 0, {"page": "0"}
        while True:
            body = await self._get("/connections", {**query, **position_query})
            rows, cursor = _list_member(body, "connections"), body.get("next_cursor")
            new_connections = [
                connection
                for connection in map(_connection_row, rows)
                if (connection.integration_id, connection.connection_id) not in connections
            ]
            connections |= {
                (connection.integration_id, connection.connection_id): connection for connection in new_connections
            }
            if not new_connections or ("cursor" in position_query and not cursor):
                break
            page_number += 1
            position_query = {"cursor": cursor} if isinstance(cursor, str) and cursor else {"page": str(page_number)}
        selected = [
            connection
            for connection in connections.values()
            if not integration_ids or connection.integration_id in integration_ids
        ]
        return selected[::-1]

    async def connection(self, connection: PeerConnection) -> MovedConnection:
        """Return the connection with its credential. Raises UnusableConnection."""
        path = f"/connections/{quote(connection.connection_id, safe='')}"
        query = {"provider_config_key": connection.integration_id, "refresh_token": "true"}
        names = (connection.integration_id, connection.connection_id)
        try:
            body = await self._calls.get(path, query)
        except PeerRespondedError as response:
            if response.status == 404:
                raise UnusableConnection(*names, "gone", "the other gateway has deleted it in the meantime") from None
            if response.code == INVALID_CREDENTIALS or response.status == 424:
                reason = response.message.removesuffix(".")
                detail = (
                    f"the credential no longer works at the other gateway: {reason}. Its end user must connect at this "
                    "gateway"
                )
                raise UnusableConnection(*names, "dead_at_peer", detail) from None
            detail = f"it was not returned ({response.status} {response.code}): {response.message}"
            raise UnusableConnection(*names, "peer_refused", detail) from None
        except PeerUnreachable as fault:
            raise UnusableConnection(*names, "peer_unreachable", str(fault), can_retry=True) from None
        if not isinstance(body, dict):
            raise UnusableConnection(*names, "peer_refused", "the response is not a connection")
        try:
            return _moved_connection(connection, body)
        except GatewayError as fault:
            raise UnusableConnection(*names, fault.code, fault.message) from None

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        try:
            return await self._calls.get(path, query)
        except PeerRespondedError as response:
            raise SourceRefused(
                f"The other gateway returned {response.status} {response.code} for GET {path}: {response.message}"
            ) from None
        except PeerUnreachable as fault:
            raise SourceRefused(
                f"{fault}. Run the command again later; connections that exist here by then are skipped."
            ) from None


def _list_member(body: Any, name: str) -> list[Any]:
    member = body.get(name) if isinstance(body, dict) else None
    if not isinstance(member, list):
        raise SourceRefused(f"The response has no list '{name}'. Check that this is the URL of the API.")
    return member


def _connection_row(row: Any) -> PeerConnection:
    if not isinstance(row, dict):
        raise SourceRefused(
            "The list of connections has an entry that is not a connection. Check that this is the URL of the API."
        )
    key, name = row.get("provider_config_key"), row.get("connection_id")
    if not isinstance(key, str) or not isinstance(name, str):
        raise SourceRefused("A connection of the list has no connection_id or provider_config_key.")
    errors, state = row.get("errors"), row.get("state")
    broken = isinstance(errors, list) and any(
        isinstance(error, dict) and error.get("type") == "auth" for error in errors
    )
    # A peer that is this product has a state, and its errors include temporary ones. Nango has no state.
    return PeerConnection(key, name, state in ENDED if isinstance(state, str) else broken)


def _moved_connection(connection: PeerConnection, row: Mapping[str, Any]) -> MovedConnection:
    """Return the connection in an API response. Raises InvalidRequest if a member cannot be stored in this gateway."""
    user = row.get("end_user")
    body = {
        "provider_config_key": connection.integration_id,
        "connection_id": connection.connection_id,
        "provider": row.get("provider") if isinstance(row.get("provider"), str) else None,
        "credentials": row.get("credentials") or {},
        "connection_config": row.get("connection_config") or {},
        "metadata": row.get("metadata"),
        "tags": row.get("tags") or {},
        "webhook_url_override": row.get("webhook_url_override") or None,
        "end_user": _end_user(user) if isinstance(user, dict) else None,
    }
    moved_connection = parse_connection(body)
    past = ImportedHistory(
        created_at=parse_time(row.get("created_at")), last_fetched_at=parse_time(row.get("last_fetched_at"))
    )
    return replace(moved_connection, past=past, from_api=True)


def _end_user(user: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an end user that this gateway stores. Null and empty members are left out."""
    members = {name: user.get(name) for name in ("id", "email", "display_name", "tags") if user.get(name)}
    organization = user.get("organization")
    if isinstance(organization, dict) and organization.get("id"):
        names = ("id", "display_name")
        members["organization"] = {name: organization[name] for name in names if organization.get(name)}
    return members

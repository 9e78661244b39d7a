"""The demo's application: calls the gateway's public API as a customer would, and connects the demo user."""

import re
import shlex
from dataclasses import dataclass
from html import unescape
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout

from gateway.cli.demo import DemoFailed
from gateway.sandbox.visitor import VisitedPage, VisitUnfinished, browser, visit
from gateway.secret import Secret

INTEGRATION: Final = "sandbox"
END_USER: Final = {"id": "demo-user", "email": "demo@example.com", "display_name": "Dana Demo"}
_FORM_INPUTS: Final = {"email": "demo@example.com", "password": "demo", "decision": "allow"}
_SITE: Final = "acme"
AGENT_KEY_NAME: Final = "demo agent"
AGENT_KEY_LIFETIME_S: Final = 30 * 86_400
# Statuses of the proxy for a connection that cannot be used: it does not exist, access was denied, or its token or site
# no longer exists.
_UNUSABLE_STATUSES: Final = frozenset({401, 403, 404, 424})


@dataclass(frozen=True, slots=True)
class DemoConnection:
    """A connection that has just served a proxied call. `path`: the path of that call, after ``/proxy``."""

    connection_id: str
    path: str


class Customer:
    """Calls the gateway at `url` with `key`.

    Every method raises DemoFailed if the gateway does not respond as expected.
    """

    def __init__(self, http: ClientSession, url: str, key: Secret) -> None:
        self._http = http
        self._url = url
        self._key = key

    async def connection(self) -> DemoConnection:
        """Return a working connection of the demo user.

        An existing connection that does not work is authorized again. If it still does not work, it is deleted, and a
        new connection is created. Each authorization goes through the real OAuth flow.
        """
        for connection_id in await self._connection_ids():
            if working_connection := await self._connection_if_working(connection_id) or await self._reconnect(
                connection_id
            ):
                return working_connection
            await self._call(
                "DELETE", f"/connections/{quote(connection_id, safe='')}?provider_config_key={INTEGRATION}"
            )
        await self._authorize({"connect_session_token": (await self._session())["token"], "params[subdomain]": _SITE})
        for new_id in await self._connection_ids():
            if working_connection := await self._connection_if_working(new_id):
                return working_connection
        raise DemoFailed("a proxied call with the new connection failed; see the gateway's log")

    async def connect_link(self) -> str:
        """Return a link with which a person connects in a browser. The link is valid for 30 minutes."""
        return str((await self._session())["connect_link"])

    def curl(self, connection: DemoConnection) -> str:
        """Return the call as a curl command. The command contains the secret key."""
        headers = {"Authorization": f"Bearer {self._key.reveal()}", **_connection_headers(connection.connection_id)}
        arguments = ["curl"]
        for name, value in headers.items():
            arguments += ["-H", f"{name}: {value}"]
        return shlex.join([*arguments, f"{self._url}/proxy{connection.path}"])

    async def agent_key(self, connection: DemoConnection, earlier_key: Secret) -> Secret:
        """Return a key with which an agent can use the demo user's issues.

        `earlier_key`: the key of an earlier start. It is returned if it is for this connection. Otherwise a new key
        replaces it.
        """
        site = connection.path.partition("/search")[0]
        rules = [
            f"GET {site}/search as search_issues",
            f"GET {site}/issue/{{key}} as get_issue",
            f"POST {site}/issue as create_issue",
        ]
        limits = {"connections": [f"{INTEGRATION}/{connection.connection_id}"], "rules": rules}
        for listed_key in (await self._call("GET", "/environment/api-keys?limit=1000"))["data"]:
            if listed_key["display_name"] != AGENT_KEY_NAME:
                continue
            if listed_key["limits"] == [limits] and earlier_key.reveal().endswith(listed_key["last_four"]):
                return earlier_key
            await self._call("DELETE", f"/environment/api-keys/{listed_key['id']}")
        scopes = ["environment:proxy", "environment:connect_sessions:write"]
        body = {
            "display_name": AGENT_KEY_NAME,
            "scopes": scopes,
            "limits": limits,
            "expires_in_s": AGENT_KEY_LIFETIME_S,
        }
        return Secret((await self._call("POST", "/environment/api-keys", body))["data"]["secret"])

    def mcp_add(self, agent_key: Secret) -> str:
        """Return the command that adds the tools of a key to Claude Code, an MCP client."""
        header = f"Authorization: Bearer {agent_key.reveal()}"
        arguments = ["claude", "mcp", "add", "--transport", "http", INTEGRATION, f"{self._url}/mcp", "--header", header]
        return shlex.join(arguments)

    async def _connection_if_working(self, connection_id: str) -> DemoConnection | None:
        path = await self._path(connection_id)
        if path is None or not await self._works(connection_id, path):
            return None
        return DemoConnection(connection_id, path)

    async def _reconnect(self, connection_id: str) -> DemoConnection | None:
        """Authorize the connection again. Return None if the authorization fails.

        The connection keeps its id, so the agent's key for this connection stays valid.
        """
        body = {"connection_id": connection_id, "integration_id": INTEGRATION}
        try:
            token = (await self._call("POST", "/connect/sessions/reconnect", body))["data"]["token"]
            await self._authorize({"connect_session_token": token})
        except DemoFailed:
            return None
        return await self._connection_if_working(connection_id)

    async def _authorize(self, query: dict[str, str]) -> None:
        """Log in and consent at the sandbox, as the demo user would."""
        try:
            async with browser() as session:
                last_page = await visit(
                    session, f"{self._url}/oauth/connect/{INTEGRATION}?{urlencode(query)}", _FORM_INPUTS
                )
        except (ClientError, VisitUnfinished) as fault:
            raise DemoFailed(f"the authorization did not finish: {fault}") from fault
        if last_page.status != 200 or not last_page.url.startswith(f"{self._url}/oauth/callback"):
            url = last_page.url.partition("?")[0]
            raise DemoFailed(f"the authorization ended at {url} with {last_page.status}: {_page_text(last_page)}")

    async def _session(self) -> dict[str, Any]:
        body = {"end_user": END_USER, "allowed_integrations": [INTEGRATION]}
        data: dict[str, Any] = (await self._call("POST", "/connect/sessions", body))["data"]
        return data

    async def _connection_ids(self) -> list[str]:
        query = urlencode({"endUserId": END_USER["id"], "integrationId": INTEGRATION})
        return [item["connection_id"] for item in (await self._call("GET", f"/connections?{query}"))["connections"]]

    async def _path(self, connection_id: str) -> str | None:
        """Return the path of a search on the connection's site; None if the connection cannot be read."""
        query = f"provider_config_key={INTEGRATION}"
        connection = await self._call("GET", f"/connections/{quote(connection_id, safe='')}?{query}", if_unusable=None)
        if connection is None:
            return None
        return f"/ex/sandbox/{connection['connection_config']['cloudId']}/rest/api/3/search?maxResults=2"

    async def _works(self, connection_id: str, path: str) -> bool:
        response = await self._call(
            "GET", f"/proxy{path}", headers=_connection_headers(connection_id), if_unusable=None
        )
        return response is not None

    async def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        headers: dict[str, str] | None = None,
        if_unusable: Any = ...,
    ) -> Any:
        """Send a request and return the JSON of a 2xx response. Raises DemoFailed.

        `if_unusable`: the result for a status in `_UNUSABLE_STATUSES`; without this argument, such a status raises
        DemoFailed.
        """
        headers_sent = {"Authorization": f"Bearer {self._key.reveal()}", **(headers or {})}
        try:
            async with self._http.request(method, self._url + path, json=body, headers=headers_sent) as response:
                if response.ok:
                    return await response.json()
                if if_unusable is not ... and response.status in _UNUSABLE_STATUSES:
                    return if_unusable
                text = await response.text()
        except (ClientError, TimeoutError) as fault:
            raise DemoFailed(f"{method} {path.partition('?')[0]} failed: {fault!r}") from fault
        raise DemoFailed(f"{method} {path.partition('?')[0]} returned {response.status}: {text[:500]}")


def session() -> ClientSession:
    """Return an HTTP session for the customer's calls. Its timeout is long enough for a token refresh."""
    return ClientSession(timeout=ClientTimeout(total=30))


def _connection_headers(connection_id: str) -> dict[str, str]:
    return {"Provider-Config-Key": INTEGRATION, "Connection-Id": connection_id}


def _page_text(page: VisitedPage) -> str:
    """Return the first 300 characters of a page's text, without markup."""
    text = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", page.text, flags=re.DOTALL | re.IGNORECASE)
    return " ".join(unescape(text).split())[:300]

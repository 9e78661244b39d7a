"""Plays the provider of an entry: accepts and records every request, and responds."""

import base64
import binascii
import json
import re
import secrets
import socket
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

from aiohttp import web

from gateway.authoring.rehearsal.played_responses import list_page, put_value, step_response, token_response
from gateway.authoring.rehearsal.stage import ROLES, Stage, path_pattern, split
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import ANY_VALUE, NO_VALUE
from gateway.records.provider_call import scrubbed

# ── A request that the sandbox received.

_UNSHOWN_HEADERS: Final = frozenset(
    {"host", "user-agent", "accept-encoding", "connection", "content-length", "via", "date"}
)
MAX_LINE_LENGTH: Final = 300


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that the sandbox received.

    `role`: the entry's field with the URL of the request, such as ``token_url``; ``step2`` and so on for additional
    steps; ``proxy`` for API calls. `target`: the path and the query, as sent.
    """

    role: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def kind(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def params(self, body_format: str | None) -> dict[str, Any]:
        """Return the parameters of the request; empty if the parameters cannot be parsed.

        `body_format`: the format of the parameters, such as ``json``; None: a form.
        """
        if body_format == "query" or self.method in {"GET", "HEAD"}:
            return self.query
        if body_format == "json":
            try:
                members = json.loads(self.body or b"{}")
            except ValueError:
                return {}
            return members if isinstance(members, dict) else {}
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    def basic(self) -> tuple[str, str] | None:
        """Return the user name and the password of HTTP Basic authentication; None if the request has none.

        The user name and the password are returned as sent, without form-decoding.
        """
        scheme, _, text = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return name, password

    def masked_lines(self, secrets: Collection[str]) -> list[str]:
        """Return the request as lines of text: method and target, relevant header fields, body. Credentials are masked.

        `secrets`: values to mask.
        """
        secret_values = tuple(secrets)
        lines = [f"{self.method} {scrubbed(self.target, secret_values)}"]
        for name, value in self.headers.items():
            lower_name = name.lower()
            if lower_name == "authorization":
                lines.append(f"{name}: {value.partition(' ')[0]} ***")
            elif lower_name not in _UNSHOWN_HEADERS:
                lines.append(f"{name}: {scrubbed(value, secret_values)}")
        if self.body:
            text = self.body.decode("utf-8", "replace")
            lines.append(re.sub(r"\s+", " ", scrubbed(text, secret_values))[:MAX_LINE_LENGTH])
        return lines


def decode_form_value(text: str) -> str:
    """Decode a client ID or a client secret, which are form-encoded in Basic authentication (RFC 6749 §2.3.1)."""
    return unquote_plus(text)


LIST_PATH: Final = "/rehearsal/list"
CALL_PATH: Final = "/rehearsal/call"
SITE: Final = {
    "id": "0b0f6a5e-3c1d-4e5f-8a9b-000000000001",
    "name": "acme",
    "scopes": ["read"],
}
# The methods of servers built with the MCP Python SDK. They read the client ID only from the body, even if the client
# uses Basic authentication.
SDK_METHODS: Final = ("client_secret_post", "client_secret_basic")


@dataclass(slots=True)
class PlayedProvider:
    """The provider that the sandbox plays.

    `stage`: the entry and its replaced origins. `entry`: the values of the rewritten entry. `arrivals`: the received
    requests, in order. `refuses_credentials`: whether the provider refuses every credential. `tokens`,
    `refresh_tokens`: all issued tokens, in order. `raw`: the last token response. `steps`: the token response of each
    step, by name (``step1``). `registered_client`: the client that was dynamically registered last.
    """

    stage: Stage
    entry: dict[str, Any]
    arrivals: list[ReceivedRequest] = field(default_factory=list)
    refuses_credentials: bool = False
    tokens: list[str] = field(default_factory=list)
    refresh_tokens: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    registered_client: dict[str, str] = field(default_factory=dict)

    @property
    def provider(self) -> Provider:
        return self.stage.provider

    @property
    def access_token(self) -> str:
        """The last issued access token; empty if there is none."""
        return self.tokens[-1] if self.tokens else ""

    def received_since(self, first_index: int, *roles: str) -> list[ReceivedRequest]:
        """Return the received requests with index `first_index` and later. If `roles` are given, filter by these roles."""
        return [arrival for arrival in self.arrivals[first_index:] if not roles or arrival.role in roles]

    async def response(self, request: web.BaseRequest) -> web.StreamResponse:
        """Record the request and return the provider's response."""
        body = await request.read()
        origin = f"{request.scheme}://{request.host}"
        role = self._role(origin, request.raw_path.partition("?")[0], request.method)
        if role == "request_url" and "oauth_verifier" in request.headers.get("Authorization", ""):
            role = "token_url"  # some providers use one URL for request tokens and access tokens
        arrival = ReceivedRequest(role, request.method, request.raw_path, request.headers, body)
        self.arrivals.append(arrival)
        if role in {"token_url", "refresh_url", "installation_token_url"} or role.startswith("step"):
            return self._token(arrival, origin)
        if role == "installation_access_url":
            return self._access(arrival)
        if role == "request_url":
            return self._request_token()
        if role == "registration_url":
            return self._register(body)
        if role == "authorization_url":
            return web.Response(text="The provider's consent page.")
        if role in {"revocation_url", "introspection_url"}:
            return web.json_response({"active": True})
        return self._discovery(arrival, origin) or self._api(arrival, origin)

    def _role(self, origin: str, path: str, method: str) -> str:
        """Return the role of the longest URL that matches the request; ``proxy`` if no URL matches."""
        candidates = [
            (len(template), role)
            for role, template in self._urls()
            if split(template)[0] == origin and path_pattern(template).fullmatch(path)
            if role != "authorization_url" or method == "GET"  # some providers use one URL for consent and token
        ]
        best_role = max(candidates, key=lambda candidate: candidate[0])[1] if candidates else "proxy"
        if best_role.startswith(("token_url", "step")) and self.provider.additional_steps:
            # If steps share a URL, their requests arrive in the order of the steps.
            token_roles = [role for _, role in candidates if role == "token_url" or role.startswith("step")]
            return token_roles[sum(arrival.role in token_roles for arrival in self.arrivals) % len(token_roles)]
        return best_role

    def _urls(self) -> Iterator[tuple[str, str]]:
        for key in ROLES:  # in the order of use: if two roles have the same URL, the first role wins
            if key in self.entry:
                yield key, self.entry[key]
        for number, step in enumerate(self.entry.get("additional_steps", ()), start=2):
            yield f"step{number}", step["url"]

    def _token(self, arrival: ReceivedRequest, origin: str) -> web.Response:
        provider = self.provider
        if provider.auth_mode == "OAUTH1":
            self.tokens.append(f"try-token-{secrets.token_hex(6)}")
            return _form(oauth_token=self.access_token, oauth_token_secret=self._secret())
        if self.refuses_credentials:
            return web.json_response({"error": "invalid_client", "error_description": "wrong credentials"}, status=401)
        number = int(arrival.role[4:]) if arrival.role.startswith("step") else 1
        self.tokens.append(f"try-token-{secrets.token_hex(8)}")
        self.refresh_tokens.append(f"try-refresh-{secrets.token_hex(8)}")
        response = token_response(provider, self.access_token, self.refresh_tokens[-1], origin)
        if provider.additional_steps:
            response = step_response(provider, number, response)
            self.steps[f"step{number}"] = response
        if arrival.role == "installation_token_url":
            response = {"token": self.access_token, "expires_at": "2099-01-01T00:00:00Z"}
        self.raw = response
        return web.json_response(response)

    def _access(self, arrival: ReceivedRequest) -> web.Response:
        """Confirm access to the installation if the request has the end user's token. Refuse any other request."""
        if arrival.headers.get("Authorization") != f"Bearer {self.access_token}":
            return web.json_response({"message": "these credentials are wrong"}, status=401)
        return web.json_response({"total_count": 0})

    def _request_token(self) -> web.Response:
        self.refresh_tokens.append(self._secret())
        return _form(
            oauth_token=f"request-{secrets.token_hex(4)}",
            oauth_token_secret=self.refresh_tokens[-1],
            oauth_callback_confirmed="true",
        )

    def _register(self, body: bytes) -> web.Response:
        """Return the response to a client registration (RFC 7591 §3.2.1). A public client gets no secret."""
        metadata = json.loads(body)
        method = str(metadata.get("token_endpoint_auth_method") or SDK_METHODS[0])
        client = {"client_id": f"registered-{secrets.token_hex(3)}", "token_endpoint_auth_method": method}
        if method != "none":
            client["client_secret"] = f"try-secret-{secrets.token_hex(8)}"
        self.registered_client = client
        return web.json_response({**metadata, **client}, status=201)

    def _secret(self) -> str:
        return f"try-token-secret-{secrets.token_hex(8)}"

    def _discovery(self, arrival: ReceivedRequest, origin: str) -> web.Response | None:
        """Return the metadata of an MCP server (RFC 9728, RFC 8414); None if the request is not for metadata."""
        if not self.provider.auth_mode.startswith("MCP") or "/.well-known/" not in arrival.path:
            return None
        path = arrival.path.partition("/.well-known/")[2]
        if path.startswith("oauth-protected-resource"):
            resource = split(self.entry["proxy"]["base_url"])
            document: dict[str, Any] = {"resource": resource[0] + resource[1], "authorization_servers": [origin]}
        elif path.startswith("oauth-authorization-server"):
            self.entry.setdefault("authorization_url", f"{origin}/authorize")
            self.entry.setdefault("token_url", f"{origin}/token")
            self.entry.setdefault("registration_url", f"{origin}/register")
            document = {
                "issuer": origin,
                "authorization_endpoint": self.entry["authorization_url"],
                "token_endpoint": self.entry["token_url"],
                "registration_endpoint": self.entry["registration_url"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": list(SDK_METHODS),
            }
        else:
            return web.json_response({}, status=404)
        return web.json_response(document)

    def _api(self, arrival: ReceivedRequest, origin: str) -> web.Response:
        # If an MCP server gets no token, it responds with 401. The gateway then requests the server's metadata.
        needs_token = self.provider.auth_mode == "MCP_OAUTH2_GENERIC" and not arrival.headers.get("Authorization")
        verification = self.provider.proxy.verification
        expected = verification.expect if verification is not None else None
        if self.refuses_credentials and expected:
            return web.json_response({"message": "these credentials are wrong"})
        if self.refuses_credentials or needs_token:
            challenge = {"WWW-Authenticate": "Bearer"}
            return web.json_response({"message": "these credentials are wrong"}, status=401, headers=challenge)
        if arrival.path.endswith("/oauth/token/accessible-resources"):
            setting = self.provider.connection_config.get("subdomain")
            suffix = (setting and setting.suffix) or ".tracker.test"
            return web.json_response([{**SITE, "url": f"https://{SITE['name']}{suffix}"}])
        scheme = self.provider.proxy.paginate
        if arrival.path.endswith(LIST_PATH) and scheme is not None:
            body, headers = list_page(scheme, arrival.query, origin + arrival.path)
            return web.json_response(body, headers=headers)
        response: dict[str, Any] = {"ok": True, "accountId": "account-1"}
        for member, value in (expected or {}).items():
            if value != NO_VALUE:
                put_value(response, member, "anything" if value == ANY_VALUE else value)
        return web.json_response(response)


def _form(**params: str) -> web.Response:
    text = "&".join(f"{name}={value}" for name, value in params.items())
    return web.Response(text=text, content_type="application/x-www-form-urlencoded")


class Sockets:
    """Listening sockets on free ports of this machine, one for each played origin."""

    def __init__(self) -> None:
        self.listeners: list[socket.socket] = []

    def origins(self) -> Iterator[str]:
        """Yield origins such as ``http://127.0.0.1:40123`` without end. Open a new socket for each origin."""
        while True:
            listener = socket.create_server(("127.0.0.1", 0))
            self.listeners.append(listener)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def serve_actor(actor: PlayedProvider, sockets: Sockets) -> AsyncIterator[None]:
    """Serve `actor` on all `sockets` until the end of the block."""
    runner = web.ServerRunner(web.Server(actor.response), access_log=None)
    await runner.setup()
    try:
        for listener in sockets.listeners:
            await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()

"""Reads an authorization request (RFC 6749 §4.1.1, PKCE by RFC 7636 §4.3) and says where its answer may go. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from gateway.sandbox.accounts import unknown
from gateway.sandbox.state import Client

_KNOWN = ("client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method")
_DEFAULT_SCOPE = "read:sandbox-user"


class NotToBeAnswered(Exception):
    """Client or redirect_uri are not known, so nothing is sent there: the person is told (RFC 6749 §4.1.2.1)."""


class RefusedRequest(Exception):
    """The client is known and hears what is wrong at `redirect`."""

    def __init__(self, redirect: "Redirect", error: str, description: str) -> None:
        super().__init__(description)
        self.redirect = redirect
        self.error = error


@dataclass(frozen=True, slots=True)
class Redirect:
    """The way back to the application."""

    uri: str
    state: str | None
    issuer: str

    def to(self, **answer: str) -> str:
        """The address with the answer in its query, and `iss` so that nobody mixes servers up (RFC 9207 §2)."""
        state = {} if self.state is None else {"state": self.state}
        joint = "&" if urlsplit(self.uri).query else "?"
        return f"{self.uri}{joint}{urlencode({**answer, **state, 'iss': self.issuer})}"

    @property
    def origin(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request that may be put before a person."""

    client: Client
    redirect: Redirect
    scopes: list[str]
    challenge: str


def read(query: str, clients: Mapping[str, Client], issuer: str) -> AuthorizationRequest:
    """The request in a query string. Raises NotToBeAnswered, RefusedRequest."""
    pairs = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name in _KNOWN]
    sent, redirect = dict(pairs), None
    repeated = {name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1}
    client = clients.get(sent.get("client_id", ""))
    if client is None or "client_id" in repeated:
        raise NotToBeAnswered(f"The application {sent.get('client_id')!r} is not registered here.")
    if sent.get("redirect_uri") not in client.redirect_uris or "redirect_uri" in repeated:
        raise NotToBeAnswered(
            f"{sent.get('redirect_uri')!r} is not a redirect address of {client.name}; "
            f"registered, letter by letter: {', '.join(client.redirect_uris)}."
        )
    redirect = Redirect(sent["redirect_uri"], None if "state" in repeated else sent.get("state"), issuer)
    if repeated:
        raise RefusedRequest(redirect, "invalid_request", f"Sent more than once: {', '.join(sorted(repeated))}.")
    if sent.get("response_type") != "code":
        raise RefusedRequest(redirect, "unsupported_response_type", "response_type must be code.")
    if not sent.get("code_challenge") or sent.get("code_challenge_method") != "S256":
        raise RefusedRequest(
            redirect, "invalid_request", "PKCE is required here: code_challenge, and S256 as its method."
        )
    scopes = list(dict.fromkeys(sent.get("scope", "").split())) or [_DEFAULT_SCOPE]
    if unknown(scopes):
        raise RefusedRequest(redirect, "invalid_scope", f"Unknown scopes: {' '.join(unknown(scopes))}")
    return AuthorizationRequest(client, redirect, scopes, sent["code_challenge"])

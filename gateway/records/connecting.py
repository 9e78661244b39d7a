"""The records that live for minutes while an end user connects: the session, the flow a browser walks, its outcome."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeAlias

from gateway.records.connection import Account, ConnectionRef, EndUser, NewConnection, Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """The demands of a session on each connection made under it; an authorization that has begun keeps them.

    `limited`: it may make a number of connections only. `code_challenge`: see ConnectSession. `browser_digest`: the session
    must serve this browser, or none yet, when the connection is stored; empty: a client without our cookie, so none yet.
    None: not checked, since what was begun has claimed the session, or the session serves any browser.
    """

    session_digest: str
    limited: bool = False
    code_challenge: str | None = None
    browser_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSession:
    """Made by the customer's back end, handed to the browser as a token, kept as that token's digest (hex SHA-256).

    `allowed_integrations` empty means all. `defaults` are the contract's ``integrations_config_defaults``:
    integration ▸ ``{connection_config, authorization_params, user_scopes}``. `key_id`: the minted key that created it; empty
    for a key of gateway.yaml, None for a session of before that was stored. `connection_id` is the id that
    whatever is made gets; with `integration_id` beside it, that connection must exist: a reconnect. `pinned`:
    it keeps its settings, and leads where it led before.

    `max_connections`: how many connections the session may make, None for any number; `connections_made` counts them.
    `single_use`: it serves one browser, the first in which its end user continues; `browser_digest` is that of its cookie.
    `code_challenge`: S256 (RFC 7636 §4.2); with one, connections stay pending until the application completes
    them with the verifier. `return_url`: the application's page to which the end user returns, with its own `return_state`.
    """

    digest: str
    environment: str
    expires_at: datetime
    end_user: EndUser | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    allowed_integrations: tuple[str, ...] = ()
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    webhook_url_override: str | None = None
    connection_id: str | None = None
    integration_id: str | None = None
    key_id: str | None = None
    pinned: bool = False
    single_use: bool = False
    max_connections: int | None = None
    connections_made: int = 0
    browser_digest: str | None = None
    code_challenge: str | None = None
    return_url: str | None = None
    return_state: str | None = None

    def terms(self, browser_digest: str | None) -> SessionTerms:
        """Return the terms for what is typed in by the client with this browser cookie; None: it has none."""
        return SessionTerms(
            session_digest=self.digest,
            limited=self.max_connections is not None,
            code_challenge=self.code_challenge,
            browser_digest=(browser_digest or "") if self.for_one_browser else None,
        )

    @property
    def bound(self) -> bool:
        """Whether the application completes what is connected (code challenge)."""
        return self.code_challenge is not None

    @property
    def for_one_browser(self) -> bool:
        """Whether the session serves one browser only: it is single-use, or its result proves which browser connected."""
        return self.single_use or self.bound

    @property
    def used_up(self) -> bool:
        """Whether the session has made all the connections that it may make."""
        return self.max_connections is not None and self.connections_made >= self.max_connections

    @property
    def reconnects(self) -> bool:
        """Whether the connection that the session pins must be there already, and stay the same account's."""
        return self.connection_id is not None and self.integration_id is not None


@dataclass(frozen=True, slots=True)
class Site:
    """A place that a credential reaches, one of several: its id, name and address for people, and the settings that select it."""

    id: str
    name: str
    url: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    """The choices that the browser, or the page it came from, may make about a flow.

    `override`: a client of the end user's own (``client_id``, ``client_secret``), and a ``refresh_token``. `ws_client_id`:
    the WebSocket that waits for the outcome. `browser`: the digest by which the browser that confirmed is known. `lang`: of
    the pages that follow. `request_id`: for the log.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    authorization_params: Mapping[str, str] = field(default_factory=dict)
    user_scope: str | None = None
    override: Mapping[str, str] = field(default_factory=dict, repr=False)
    ws_client_id: str | None = None
    browser: str | None = None
    lang: str | None = None
    request_id: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"asked": asdict(self)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "FlowOptions":
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in stored["asked"].items() if name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChoice:
    """A grant that reaches several sites, until the end user has chosen one.

    `held`: the credential. `provider_config`: settings that the provider returned with it.
    """

    held: Mapping[str, Any] = field(repr=False)
    provider_config: Mapping[str, str]
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAuthorization:
    """The data that the callback needs, pinned when the authorization began, so that nothing can change it on the way.

    `provider` and `mode`: the names of the catalog entry and of its auth mode. `kept`: what the mode keeps for itself, the
    PKCE verifier among it. `url`: the provider's consent page. `config`: the settings; those in `given` came from the
    session or the end user, and win over what the provider returns. `client`: digest of the ``ws_client_id`` of the window
    that waits. `browser`: digest by which the browser that confirmed is known. `limited`, `code_challenge`: see
    SessionTerms. `began`: digest of the `state` that it began with, where that is not this flow's. `choice`: where the grant
    is there, and waits for the end user to choose a site.
    """

    provider: str
    mode: str
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False)
    url: str = ""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    given: tuple[str, ...] = ()
    end_user: EndUser | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    webhook_url_override: str | None = None
    client: str | None = None
    browser: str | None = None
    reconnects: bool = False
    pinned: bool = False
    lang: str | None = None
    limited: bool = False
    code_challenge: str | None = None
    began: str | None = None
    choice: PendingChoice | None = None

    def as_json(self) -> dict[str, Any]:
        """Return one flat object, as every version has stored it: nodes of two versions finish each other's flows."""
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in {"began", "choice"}}
        stored |= {
            "kept": dict(self.kept),
            "config": dict(self.config),
            "given": list(self.given),
            "tags": dict(self.tags),
            "end_user": asdict(self.end_user) if self.end_user else None,
        }
        if self.began is not None:
            stored["began"] = self.began
        if self.choice is not None:
            stored |= {
                "held": dict(self.choice.held),
                "told": dict(self.choice.provider_config),
                "sites": [asdict(site) for site in self.choice.sites],
            }
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "PendingAuthorization":
        """Read the record, also one of an earlier version: what that did not store yet has the value that it meant."""
        known = {one.name for one in fields(cls)} - {"choice"}
        values = {name: value for name, value in stored.items() if name in known}
        values["given"] = tuple(stored.get("given", stored["config"]))
        values["end_user"] = EndUser(**stored["end_user"]) if stored.get("end_user") else None
        if "sites" in stored:
            sites = tuple(Site(**site) for site in stored["sites"])
            values["choice"] = PendingChoice(held=stored["held"], provider_config=stored["told"], sites=sites)
        return cls(**values)


FlowDetails: TypeAlias = FlowOptions | PendingAuthorization


def flow_details(stored: Mapping[str, Any]) -> FlowDetails:
    """Read what `as_json` of either has made."""
    return FlowOptions.from_json(stored) if "asked" in stored else PendingAuthorization.from_json(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFlow:
    """An authorization under way. `state_digest` is its key, `browser_digest` that of the cookie its browser holds."""

    state_digest: str
    browser_digest: str
    environment: str
    integration_id: str
    connection_id: str
    session_digest: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(OpenFlow):
    """A flow as it is stored. `details`: sealed FlowDetails, which a reader of the database must not have."""

    details: Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFlow(OpenFlow):
    """A flow about to be stored; the store seals `details`."""

    details: FlowDetails = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingConnection:
    """The connection that an end user made under a session with a code challenge, until the application completes it.

    `new` None: it was completed. `reconnects`: a connection must be at its address when it is completed.
    """

    uid: str
    ref: ConnectionRef
    session_digest: str
    code_challenge: str
    expires_at: datetime
    new: NewConnection | None
    reconnects: bool = False

    @property
    def provider(self) -> str:
        return self.new.provider if self.new else ""

    @property
    def account(self) -> Account:
        return self.new.account if self.new else Account()

    @property
    def config(self) -> Mapping[str, Any]:
        return (self.new.config if self.new else None) or {}


SESSION_ENDED: Final = "session_ended"  # as `error_type`: no attempt, but the mark that a session leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one attempt to connect, for the browser's WebSocket and for polling.

    `client_digest`: of the ``ws_client_id`` that the browser's window named. `flow_digest`: of the `state` of the
    authorization, which is spent. `browser_digest`: of the browser that confirmed, if it keeps cookies. `error_type`
    (docs/compatibility.md#authorization) and `error_desc` are there where it failed; `code` is then one of docs/http-api.md.
    `is_pending`: the application has yet to complete it or, of a failure, did not complete it.
    """

    environment: str
    session_digest: str
    integration_id: str
    at: datetime
    connection_id: str | None = None
    client_digest: str | None = None
    flow_digest: str | None = None
    browser_digest: str | None = None
    is_pending: bool = False
    error_type: str | None = None
    error_desc: str | None = None
    code: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.error_type is None

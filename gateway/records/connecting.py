"""Short-lived records of an end user connecting: the session, the browser's authorization flow, its outcome."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeAlias

from gateway.records.connection import Account, ConnectionRef, EndUser, NewConnection, Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """A session's conditions for each connection made under it; a started authorization keeps them.

    `limited`: the session may make only a number of connections. `code_challenge`: see ConnectSession.
    `browser_digest`: checked when the connection is stored: the session must then belong to this browser, or to no
    browser yet. Empty: the client has no cookie, so the session must belong to no browser. None: nothing is checked,
    because the session was claimed when the authorization started, or serves any browser.
    """

    session_digest: str
    limited: bool = False
    code_challenge: str | None = None
    browser_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSession:
    """A connect session: created by the customer's back end, given to the browser as a token, stored by that token's
    digest (hex SHA-256).

    `allowed_integrations` empty means all. `defaults` are the contract's ``integrations_config_defaults``: integration
    ▸ ``{connection_config, authorization_params, user_scopes}``. `key_id`: the minted key that created it; empty for a
    key of gateway.yaml, None for a session of a release that did not store it. `connection_id`: the id that a new
    connection gets; if `integration_id` is set too, that connection must exist, and the session reconnects it.
    `pinned`: that connection keeps its settings and its hosts.

    `max_connections`: how many connections the session may make, None for any number; `connections_made` counts them.
    `single_use`: the session serves one browser, the first in which the end user continues; `browser_digest` is the
    digest of its cookie. `code_challenge`: S256 (RFC 7636 §4.2); if set, connections stay pending until the application
    completes them with the verifier. `return_url`: the application's page to which the end user returns, with
    `return_state`.
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
        """Return the terms for credentials typed in by the client with this browser cookie; None: it has no cookie."""
        return SessionTerms(
            session_digest=self.digest,
            limited=self.max_connections is not None,
            code_challenge=self.code_challenge,
            browser_digest=(browser_digest or "") if self.for_one_browser else None,
        )

    @property
    def bound(self) -> bool:
        """Whether the application must complete connections (code challenge)."""
        return self.code_challenge is not None

    @property
    def for_one_browser(self) -> bool:
        """Whether the session serves one browser only: it is single-use, or its result proves which browser
        connected."""
        return self.single_use or self.bound

    @property
    def used_up(self) -> bool:
        """Whether the session has made all the connections that it may make."""
        return self.max_connections is not None and self.connections_made >= self.max_connections

    @property
    def reconnects(self) -> bool:
        """Whether the session's connection must already exist and keep its account."""
        return self.connection_id is not None and self.integration_id is not None


@dataclass(frozen=True, slots=True)
class Site:
    """A site that a credential reaches: its id, its name and URL for people, and the settings that select it."""

    id: str
    name: str
    url: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    """The options of a flow that the browser, or the page it came from, may choose.

    `override`: the end user's own client (``client_id``, ``client_secret``), and a ``refresh_token``. `ws_client_id`:
    the WebSocket that waits for the outcome. `browser`: digest of the browser that confirmed. `lang`: language of the
    following pages. `request_id`: for the log.
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
    """The data that the callback needs, fixed when the authorization started, so that nothing can change it meanwhile.

    `provider` and `mode`: names of the catalog entry and of its auth mode. `kept`: the mode's own data, for example the
    PKCE verifier. `url`: the provider's consent page. `config`: the settings; those named in `given` came from the
    session or the end user, and override what the provider returns. `client`: digest of the waiting window's
    ``ws_client_id``. `browser`: digest of the browser that confirmed. `limited`, `code_challenge`: see SessionTerms.
    `began`: digest of the flow's first `state`, if that was replaced. `choice`: a grant that waits for the end user to
    choose a site.
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
        """Return one flat object, as all versions store it: nodes of two versions finish each other's flows."""
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
        """Read the record, including one of an earlier version: a missing member gets the value that the version
        implied."""
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
    """Read a record that `as_json` of either class wrote."""
    return FlowOptions.from_json(stored) if "asked" in stored else PendingAuthorization.from_json(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFlow:
    """An authorization in progress, found by `state_digest`. `browser_digest`: digest of its browser's cookie."""

    state_digest: str
    browser_digest: str
    environment: str
    integration_id: str
    connection_id: str
    session_digest: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(OpenFlow):
    """A flow as it is stored. `details`: sealed FlowDetails, hidden from readers of the database."""

    details: Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFlow(OpenFlow):
    """A flow about to be stored; the store seals `details`."""

    details: FlowDetails = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingConnection:
    """A connection made under a session with a code challenge, until the application completes it.

    `new` None: the application has completed it. `reconnects`: at completion, the connection must exist already.
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


SESSION_ENDED: Final = "session_ended"  # as `error_type`: marks the end of a session, not an attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one attempt to connect, for the browser's WebSocket and for polling.

    `client_digest`: digest of the ``ws_client_id`` that the browser's window named. `flow_digest`: digest of the
    authorization's `state`, which cannot be used again. `browser_digest`: digest of the browser that confirmed, if it
    keeps cookies. `error_type` (docs/compatibility.md#authorization) and `error_desc` are set if the attempt failed;
    `code` is then an error code of docs/http-api.md. `is_pending`: the application has not completed the connection
    yet or, for a failure, did not complete it.
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

    @property
    def is_failed_attempt(self) -> bool:
        """Whether the outcome is a failure, and not the end of a connection that waited for the application."""
        return not self.succeeded and not self.is_pending

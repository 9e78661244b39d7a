"""Short-lived records while an end user connects: the session, the authorization flow in the browser, the outcome."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeAlias

from gateway.records.connection import Account, ConnectionRef, EndUser, NewConnection, Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """The conditions that a session sets for each of its connections. An authorization keeps the conditions with which
    it started.

    - `limited`: the session has a maximum number of connections
    - `code_challenge`: the session's code challenge, if any
    - `browser_digest`: digest of the browser's cookie; the connection is stored only if the session belongs to this
      browser or to no browser. Empty: the client has no cookie, so the session must not belong to a browser. None: the
      browser is not checked, because the session serves any browser, or was bound to its browser when the authorization
      started.
    """

    session_digest: str
    limited: bool = False
    code_challenge: str | None = None
    browser_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSession:
    """A connect session. The application's back end creates the session, the browser gets its token, and the store has
    only the token's digest (hex SHA-256).

    - `allowed_integrations`: keys of the integrations; empty: all integrations
    - `defaults`: the ``integrations_config_defaults`` of the request: integration ▸ ``{connection_config,
      authorization_params, user_scopes}``
    - `key_id`: id of the minted key that created the session; empty: a key of gateway.yaml; None: an earlier release,
      which did not store the key, created the session
    - `connection_id`: the id of the new connection. If `integration_id` is set too, the connection must already exist,
      and the session reconnects it.
    - `pinned`: a reconnected connection keeps its settings and its hosts
    - `max_connections`: maximum number of connections; None: no limit
    - `connections_made`: the number of connections so far
    - `single_use`: the session serves only one browser, the first in which the end user continues
    - `browser_digest`: digest of that browser's cookie
    - `code_challenge`: S256 challenge (RFC 7636 §4.2); if set, connections stay pending until the application completes
      them with the verifier
    - `return_url`: the application's page to which the end user returns
    - `return_state`: a text that is added to `return_url` as the parameter ``state``
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
        """Return the terms for a connection whose credentials are entered in a form. `browser_digest`: digest of the
        cookie of the browser that posts the form; None: the client has no cookie."""
        return SessionTerms(
            session_digest=self.digest,
            limited=self.max_connections is not None,
            code_challenge=self.code_challenge,
            browser_digest=(browser_digest or "") if self.for_one_browser else None,
        )

    @property
    def needs_completion(self) -> bool:
        """Whether the application must complete the session's connections, because the session has a code challenge."""
        return self.code_challenge is not None

    @property
    def for_one_browser(self) -> bool:
        """Whether the session serves only one browser: the session is single-use, or has a code challenge, so that its
        result proves which browser connected."""
        return self.single_use or self.needs_completion

    @property
    def is_used_up(self) -> bool:
        """Whether the session has reached its maximum number of connections."""
        return self.max_connections is not None and self.connections_made >= self.max_connections

    @property
    def reconnects(self) -> bool:
        """Whether the session authorizes an existing connection again. The connection must keep its account."""
        return self.connection_id is not None and self.integration_id is not None


@dataclass(frozen=True, slots=True)
class Site:
    """A site that a credential can access. `id`: the provider's id of the site. `name`, `url`: for people. `settings`:
    the settings of a connection to this site."""

    id: str
    name: str
    url: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    """The options of a flow that the browser, or the page that opened the connect window, may choose.

    - `override`: the end user's own OAuth client (``client_id``, ``client_secret``), and a ``refresh_token``; empty:
      the integration's client
    - `ws_client_id`: id of the WebSocket that waits for the outcome; None: no WebSocket waits
    - `browser`: digest of the cookie of the browser in which the end user confirmed
    - `lang`: language of the following pages
    - `request_id`: id of the request, for the log
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
    def from_json(cls, stored_json: Mapping[str, Any]) -> "FlowOptions":
        field_names = {field_.name for field_ in fields(cls)}
        return cls(**{name: value for name, value in stored_json["asked"].items() if name in field_names})


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChoice:
    """A grant for several sites, which waits until the end user has chosen a site.

    `held`: the credential. `provider_config`: settings that the provider returned with the credential.
    """

    held: Mapping[str, Any] = field(repr=False)
    provider_config: Mapping[str, str]
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAuthorization:
    """The data that the callback needs. The data is fixed when the authorization starts, so that no later request can
    change it.

    - `provider`, `mode`: names of the catalog entry and of its auth mode
    - `kept`: the auth mode's own data, for example the PKCE verifier
    - `url`: the URL of the provider's consent page
    - `config`: the connection's settings
    - `given`: names of the settings that the session or the end user set; these override settings from the provider
    - `client`: digest of the ``ws_client_id`` of the waiting window
    - `browser`: digest of the cookie of the browser in which the end user confirmed
    - `limited`, `code_challenge`: the session's terms (SessionTerms)
    - `began`: digest of the flow's first `state`; None: the flow still has its first `state`
    - `choice`: a grant that waits until the end user has chosen a site
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
        """Return the data as one flat object. All releases store this format, because nodes of two releases can finish
        each other's flows."""
        members = {
            field_.name: getattr(self, field_.name) for field_ in fields(self) if field_.name not in {"began", "choice"}
        }
        members |= {
            "kept": dict(self.kept),
            "config": dict(self.config),
            "given": list(self.given),
            "tags": dict(self.tags),
            "end_user": asdict(self.end_user) if self.end_user else None,
        }
        if self.began is not None:
            members["began"] = self.began
        if self.choice is not None:
            members |= {
                "held": dict(self.choice.held),
                "told": dict(self.choice.provider_config),
                "sites": [asdict(site) for site in self.choice.sites],
            }
        return members

    @classmethod
    def from_json(cls, stored_json: Mapping[str, Any]) -> "PendingAuthorization":
        """Read a stored record. A member that an earlier release did not store gets the value which that release
        implied."""
        field_names = {field_.name for field_ in fields(cls)} - {"choice"}
        values = {name: value for name, value in stored_json.items() if name in field_names}
        values["given"] = tuple(stored_json.get("given", stored_json["config"]))
        values["end_user"] = EndUser(**stored_json["end_user"]) if stored_json.get("end_user") else None
        if "sites" in stored_json:
            sites = tuple(Site(**site) for site in stored_json["sites"])
            values["choice"] = PendingChoice(held=stored_json["held"], provider_config=stored_json["told"], sites=sites)
        return cls(**values)


FlowDetails: TypeAlias = FlowOptions | PendingAuthorization


def flow_details(stored_json: Mapping[str, Any]) -> FlowDetails:
    """Read a record that `FlowOptions.as_json` or `PendingAuthorization.as_json` wrote."""
    return FlowOptions.from_json(stored_json) if "asked" in stored_json else PendingAuthorization.from_json(stored_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFlow:
    """An authorization in progress. `state_digest`: digest of the parameter ``state``, by which the callback finds the
    flow. `browser_digest`: digest of the cookie that binds the flow to a browser."""

    state_digest: str
    browser_digest: str
    environment: str
    integration_id: str
    connection_id: str
    session_digest: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(OpenFlow):
    """A flow as the store returns it. `details`: the sealed FlowDetails, so that readers of the database cannot read
    them."""

    details: Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFlow(OpenFlow):
    """A flow that is not stored yet. The store seals `details`."""

    details: FlowDetails = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingConnection:
    """A connection of a session with a code challenge. The connection is pending until the application completes it.

    `new`: the connection to store; None: the application has completed the connection. `reconnects`: the connection
    must already exist when the application completes it.
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


SESSION_ENDED: Final = "session_ended"  # the `error_type` that reports the end of a session, not an attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one attempt to connect, for the browser's WebSocket and for polling.

    - `client_digest`: digest of the ``ws_client_id`` that the browser's window sent
    - `flow_digest`: digest of the authorization's ``state``, which cannot be used again
    - `browser_digest`: digest of the cookie of the browser in which the end user confirmed, if the browser keeps
      cookies
    - `error_type` (docs/compatibility.md#authorization), `error_desc`: set if the attempt failed
    - `code`: an error code of docs/http-api.md, set if the attempt failed
    - `is_pending`: the application has not completed the connection. If the outcome is also a failure, the application
      can no longer complete the connection.
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
        """Whether an attempt to connect failed. The end of a pending connection that the application did not complete
        is not a failed attempt."""
        return not self.succeeded and not self.is_pending

"""The configuration as the gateway uses it: frozen, with all defaults filled in;
and the settings that need a restart."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Final, Literal

from gateway.authority import origin_of
from gateway.config.document import ConfigDocument
from gateway.documents.read_document import Place
from gateway.records.integration import Integration, TraceHeaders
from gateway.secret import Secret


@dataclass(frozen=True, slots=True)
class ClientLimitsConfig:
    """The limits of one client in a worker. Times are seconds.

    `head_s`: maximum time until a request's head is complete. `answer_idle_s`: how long the gateway's own response may
    stay unread. `body_idle_s`: how long a body may make no progress. After `body_grace_s`, a body that the gateway
    itself reads needs an average of `body_bytes_per_s`; after `upload_grace_s` of waiting, a proxied body needs
    `upload_bytes_per_s`. 0 bytes per second: no limit.
    """

    connections: int = 20_000
    keep_alive_s: float = 75
    head_s: float = 20
    answer_idle_s: float = 60
    body_idle_s: float = 60
    body_grace_s: float = 20
    body_bytes_per_s: int = 500
    upload_grace_s: float = 60
    upload_bytes_per_s: int = 10


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Settings of the server. `public_url`, without trailing slash, is the base of the callback, logos and links.
    `admin_host` None: `host`."""

    host: str
    port: int
    public_url: str
    workers: int
    drain_s: float
    notice_s: float
    admin_port: int | None
    websocket_path: str
    limits: ClientLimitsConfig = ClientLimitsConfig()
    admin_host: str | None = None

    @property
    def metrics_host(self) -> str:
        """The host on which `admin_port` listens."""
        return self.host if self.admin_host is None else self.admin_host


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """The connection cache. `ttl_s`: how long a decrypted connection stays in memory; `max_connections` and
    `max_bytes`: its size; `trust_s`: how long an entry is used without checking the store."""

    ttl_s: float
    max_connections: int
    trust_s: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """A worker's connections to PostgreSQL; one more connection listens for changes.

    Time limits in seconds: `connect_s` to open a connection, `wait_s` to get a free one, `statement_s` for one
    statement.
    """

    readers: int = 4
    writers: int = 3
    connect_s: float = 5
    wait_s: float = 5
    statement_s: float = 5


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """`url` may contain a database password. `encryption_keys` are standard base64;
    the first encrypts, all can decrypt."""

    url: str = field(repr=False)
    encryption_keys: tuple[Secret, ...]
    pool: PoolConfig = PoolConfig()


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """One environment. `connect_origins`: origins that may embed the connect page, spelled as in a browser
    (``https://app.example.com``).

    `connect_links_in_errors`: whether keys declared here get connect links in errors 404 and 424. `requires_binding`:
    each connect session must have a code challenge, so that only the application can complete the connection.
    """

    name: str
    secret_keys: tuple[Secret, ...]
    webhook_url: str | None
    webhook_url_secondary: str | None
    webhook_signing_key: Secret | None
    webhook_signing_key_previous: Secret | None
    variables: Mapping[str, Secret]
    integrations: Mapping[str, Integration]
    connect_origins: tuple[str, ...] = ()
    connect_links_in_errors: bool = False
    connect_binding: Literal["optional", "required"] = "optional"

    @property
    def requires_binding(self) -> bool:
        return self.connect_binding == "required"


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """Limits of connect sessions (`sessions_open`, `sessions_per_minute`) per key, and of WebSockets that wait for a
    result (`result_sockets`, `result_sockets_per_address`) per worker."""

    sessions_open: int = 10_000
    sessions_per_minute: int = 600
    result_sockets: int = 20_000
    result_sockets_per_address: int = 1000


@dataclass(frozen=True, slots=True)
class WebhooksConfig:
    """Limits of incoming webhooks per integration: maximum body size,
    and number and total bytes of waiting webhooks."""

    body_bytes: int = 5 << 20
    waiting: int = 10_000
    waiting_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class BrandingConfig:
    """The operator's brand on pages for end users.
    `name` None: no name is shown; `logo`: a file; colours: ``#rrggbb``."""

    name: str | None
    logo: Path | None
    color: str
    color_dark: str


@dataclass(frozen=True, slots=True)
class AllowedNetwork:
    """A private network to which connections are allowed, on one `port`, or on any port if None."""

    network: IPv4Network | IPv6Network
    port: int | None


@dataclass(frozen=True, slots=True)
class TimeoutsConfig:
    """Timeouts of a call in seconds. `total_s` None: no limit while data flows."""

    connect_s: float
    first_byte_s: float
    idle_s: float
    total_s: float | None
    max_first_byte_s: float


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Limits per provider origin: open `connections`, calls whose response has not begun (`outstanding`), `waiting`
    calls, and how long a call waits (`wait_s`, seconds)."""

    connections: int
    outstanding: int
    waiting: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class EgressConfig:
    """Settings of outgoing requests. `proxy` may contain a password. `page_memory_bytes`: memory for the pages of all
    paged calls of a worker together.

    `trace_headers`: how a caller's ``traceparent`` is handled, unless the integration sets it.
    """

    allow: tuple[AllowedNetwork, ...]
    proxy: str | None = field(repr=False)
    timeouts: TimeoutsConfig
    limits: LimitsConfig
    page_memory_bytes: int
    trace_headers: TraceHeaders = "pass"


@dataclass(frozen=True, slots=True)
class CallLogConfig:
    """The settings of the call log. `keep_days`, `max_bytes` and `max_rows` all limit what is kept.

    `max_rows` None: no limit of rows. `sample`: the share of successful calls that is logged;
    failed calls are always logged.
    """

    enabled: bool
    keep_days: float
    max_bytes: int
    sample: float
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class ConsoleOidcConfig:
    """The operators' identity provider. `issuer`: without trailing slash; None: no sign-in with OpenID Connect."""

    issuer: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class IdentityHeadersConfig:
    """Headers in which a reverse proxy names the signed-in user;
    only accepted from `trusted_proxies`, by default none."""

    trusted_proxies: tuple[AllowedNetwork, ...] = ()
    user: str = "x-forwarded-user"
    groups: str = "x-forwarded-groups"


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """The settings of the console: whether ``/console`` is served, how long a session lasts, and who may sign in.

    `operators`, `viewers`: groups of the identity provider or identity headers. `port`: the console's own port; None:
    `server.port`. `host`: where that port listens; None: `server.host`. `public_url` None: see `Config.console_url`.
    """

    enabled: bool
    session_hours: float
    operators: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    oidc: ConsoleOidcConfig = ConsoleOidcConfig()
    identity_headers: IdentityHeadersConfig = IdentityHeadersConfig()
    port: int | None = None
    host: str | None = None
    public_url: str | None = None


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """The settings of the audit log. `refreshes`: record all token refreshes, or only those that change a connection's
    state. `keep_days` 0: records are kept forever. `uses_days`: how long counts of credential uses are kept. A
    checkpoint is created after `checkpoint_records` or `checkpoint_minutes`, whichever is first, and sent to the log,
    to `checkpoint_file` and to `checkpoint_url`."""

    refreshes: Literal["changes", "all"]
    keep_days: float
    uses_days: float
    checkpoint_records: int
    checkpoint_minutes: float
    checkpoint_file: Path | None
    checkpoint_url: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Settings of traces; all others are `OTEL_*` environment variables.
    `connection_ids`: spans name the connection."""

    connection_ids: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration. `catalog`: the operator's own catalog folders;
    `path`: the file's path, None for a mapping."""

    server: ServerConfig
    live: LiveConfig
    store: StoreConfig
    catalog: tuple[Path, ...]
    environments: Mapping[str, EnvironmentConfig]
    egress: EgressConfig
    call_log: CallLogConfig
    audit: AuditConfig
    webhooks: WebhooksConfig
    branding: BrandingConfig
    connect: ConnectConfig
    console: ConsoleConfig
    tracing: TracingConfig
    path: Path | None
    document: ConfigDocument = field(repr=False, compare=False)

    @property
    def callback_url(self) -> str:
        """The redirect URL to register at every provider."""
        return f"{self.server.public_url}/oauth/callback"

    @property
    def console_host(self) -> str:
        """The host on which `console.port` listens."""
        return self.console.host or self.server.host

    @property
    def console_url(self) -> str:
        """The base URL at which browsers reach ``/console``, without trailing slash."""
        if self.console.public_url is not None:
            return self.console.public_url
        port = self.console.port
        return self.server.public_url if port is None else default_public_url(self.console_host, port)

    def where(self, *place: str) -> str:
        """Return ``gateway.yaml:17`` for keys such as ``"environments", "dev"``,
        or for their nearest parent in the file."""
        return self.document.where(place)

    def at_port(self, port: int, console_port: int | None = None) -> "Config":
        """Return this configuration with the ports that the system chose for port 0, also in a derived `public_url`."""
        derived = self.server.public_url == default_public_url(self.server.host, self.server.port)
        public_url = default_public_url(self.server.host, port) if derived else self.server.public_url
        server, console = replace(self.server, port=port, public_url=public_url), self.console
        return replace(self, server=server, console=replace(console, port=console_port))


def default_public_url(host: str, port: int) -> str:
    """Return the default of `server.public_url`, used for a loopback host."""
    return origin_of("http", host, port)


# ── Settings that need a restart: a socket, a process or the store reads them once, at the start.

# With port 0 the system chose the port, so a reload with 0 changes nothing.
FIXED: Final[Mapping[Place, Any]] = {
    ("server", "host"): None,
    ("server", "port"): 0,
    ("server", "workers"): None,
    ("server", "drain_s"): None,
    ("server", "notice_s"): None,
    ("server", "admin_port"): 0,
    ("server", "admin_host"): None,
    ("server", "websocket_path"): None,
    ("server", "limits"): None,
    ("console", "port"): 0,
    ("console", "host"): None,
    ("store", "url"): None,
    ("store", "pool"): None,
    ("tracing", "connection_ids"): None,
}


def with_fixed(new: Config, running: Config) -> tuple[Config, list[Place]]:
    """Return `new` with the fixed settings of `running`, and the places that need a restart to take effect."""
    ignored = []
    for place, any_will_do in FIXED.items():
        wanted, kept = _at(new, place), _at(running, place)
        if wanted != kept and (kept is None or any_will_do is None or wanted != any_will_do):
            ignored.append(place)
    server = new.server
    derived = server.public_url == default_public_url(server.host, server.port)
    host, port = running.server.host, running.server.port
    public_url = default_public_url(host, port) if derived else server.public_url
    store = replace(running.store, encryption_keys=new.store.encryption_keys)
    console = replace(new.console, port=running.console.port, host=running.console.host)
    config = replace(
        new,
        server=replace(running.server, public_url=public_url),
        store=store,
        console=console,
        tracing=running.tracing,
    )
    return config, ignored


def _at(config: Config, place: Place) -> Any:
    section, key = place
    return getattr(getattr(config, section), key)

"""The configuration as the gateway uses it: plain, frozen, every default filled in; and what a running gateway cannot change."""

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
    """The limits of one client in a worker.

    `head_s`: until a request's head is complete. `answer_idle_s`: for which an answer of the gateway's own may lie unread.
    `body_idle_s`: for which a body may stand still. A body that the gateway reads itself must come at `body_bytes_per_s` on
    average once `body_grace_s` are over; a proxied one at `upload_bytes_per_s` once it has been waited for during
    `upload_grace_s`. 0 bytes a second: no such limit.
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
    """`public_url` has no trailing slash; the callback, logos and links derive from it. `admin_host` None: `host`."""

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
        """Where `admin_port` listens."""
        return self.host if self.admin_host is None else self.admin_host


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """How long opened connections are kept in memory, how many, in how many bytes, and for how long without asking the store."""

    ttl_s: float
    max_connections: int
    trust_s: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """A worker's connections to PostgreSQL; besides these it has one that listens.

    `connect_s`: until a connection is made; `wait_s`: until one is free; `statement_s`: until a statement has ended.
    """

    readers: int = 4
    writers: int = 3
    connect_s: float = 5
    wait_s: float = 5
    statement_s: float = 5


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """`url` may hold a database password. Of `encryption_keys`, standard base64 each, the first seals and all open."""

    url: str = field(repr=False)
    encryption_keys: tuple[Secret, ...]
    pool: PoolConfig = PoolConfig()


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """`connect_origins`: whose pages may embed the connect page, spelt as a browser does (``https://app.example.com``).

    `connect_links_in_errors`: whether keys declared here get connect links in errors 404 and 424. `requires_binding`: each
    connect session must have a code challenge, so that the application completes what is connected.
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
    """`sessions_open` and `sessions_per_minute` for each key, the others for each worker: WebSockets that wait for a result."""

    sessions_open: int = 10_000
    sessions_per_minute: int = 600
    result_sockets: int = 20_000
    result_sockets_per_address: int = 1000


@dataclass(frozen=True, slots=True)
class WebhooksConfig:
    """Providers' webhooks, for each integration: how large one may be, and how many, of how many bytes, may wait."""

    body_bytes: int = 5 << 20
    waiting: int = 10_000
    waiting_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class BrandingConfig:
    """The customer's brand on pages for end users: `name` None shows none, `logo` is a file, colours are ``#rrggbb``.

    `name` None shows none, `logo` is a file, colours are ``#rrggbb``. `name` None shows none, `logo` is a file, colours
    are ``#rrggbb``.
    """

    name: str | None
    logo: Path | None
    color: str
    color_dark: str


@dataclass(frozen=True, slots=True)
class AllowedNetwork:
    """A private network that may be dialled, on one port or, with None, on any."""

    network: IPv4Network | IPv6Network
    port: int | None


@dataclass(frozen=True, slots=True)
class TimeoutsConfig:
    """Seconds. `total_s` None: a call may take as long as something moves."""

    connect_s: float
    first_byte_s: float
    idle_s: float
    total_s: float | None
    max_first_byte_s: float


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Limits for each provider origin: open connections, calls without an answer yet, waiting calls, and how long these wait."""

    connections: int
    outstanding: int
    waiting: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class EgressConfig:
    """`proxy` may hold a password. `page_memory_bytes`: for the pages that all paged calls of a worker hold together.

    `trace_headers`: what becomes of a caller's ``traceparent``, where an integration does not say.
    """

    allow: tuple[AllowedNetwork, ...]
    proxy: str | None = field(repr=False)
    timeouts: TimeoutsConfig
    limits: LimitsConfig
    page_memory_bytes: int
    trace_headers: TraceHeaders = "pass"


@dataclass(frozen=True, slots=True)
class CallLogConfig:
    """The settings of the call log: whether calls are logged, and what is kept, the strictest of its bounds.

    `max_rows` None: no such bound. `sample`: the share of calls that went well that is logged; all others are.
    """

    enabled: bool
    keep_days: float
    max_bytes: int
    sample: float
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class ConsoleOidcConfig:
    """The operators' identity provider. `issuer` without a slash at its end; None: there is no sign-in by it."""

    issuer: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class IdentityHeadersConfig:
    """Header fields by which a proxy in front says who asks; believed from `trusted_proxies` alone, so never without any."""

    trusted_proxies: tuple[AllowedNetwork, ...] = ()
    user: str = "x-forwarded-user"
    groups: str = "x-forwarded-groups"


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """The settings of the console: whether it is at ``/console``, how long somebody stays signed in, and who may.

    `operators`, `viewers`: groups of the identity provider, or of identity headers. `port`: of its own; None: `server.port`.
    `host`: where that port listens; None: `server.host`. `public_url` None: see `Config.console_url`.
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
    """`refreshes`: whether each is recorded or only those that change a connection's state. `keep_days` 0: records are kept
    for ever. `uses_days`: days that counts of the use of credentials are kept. A checkpoint is made after so many records or
    minutes, whichever comes first, and goes to the log, to `checkpoint_file` and to `checkpoint_url`."""

    refreshes: Literal["changes", "all"]
    keep_days: float
    uses_days: float
    checkpoint_records: int
    checkpoint_minutes: float
    checkpoint_file: Path | None
    checkpoint_url: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """All else of traces stands in the `OTEL_*` variables. `connection_ids`: spans name the connection."""

    connection_ids: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """All of it. `catalog` holds the operator's own folders; `path` is the file's, None for a mapping."""

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
        """The redirect address to register at every provider."""
        return f"{self.server.public_url}/oauth/callback"

    @property
    def console_host(self) -> str:
        """Where `console.port` listens."""
        return self.console.host or self.server.host

    @property
    def console_url(self) -> str:
        """The address under which browsers find ``/console``, without trailing slash."""
        if self.console.public_url is not None:
            return self.console.public_url
        port = self.console.port
        return self.server.public_url if port is None else default_public_url(self.console_host, port)

    def where(self, *place: str) -> str:
        """``gateway.yaml:17`` for keys such as ``"environments", "dev"``, or for the nearest around them that is written."""
        return self.document.where(place)

    def at_port(self, port: int, console_port: int | None = None) -> "Config":
        """Return the configuration of a server configured with port 0, with the ports it got, in a derived `public_url` too."""
        derived = self.server.public_url == default_public_url(self.server.host, self.server.port)
        public_url = default_public_url(self.server.host, port) if derived else self.server.public_url
        server, console = replace(self.server, port=port, public_url=public_url), self.console
        return replace(self, server=server, console=replace(console, port=console_port))


def default_public_url(host: str, port: int) -> str:
    """Return the `server.public_url` of a loopback host that names none."""
    return origin_of("http", host, port)


# ── Settings that need a restart: they are read once, at the start, for a socket, a process or the store.

# With 0 the system chose the port, so a reload that still says 0 changes nothing.
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
    """`new` as far as it can take effect under `running`, and the places of what needs a restart."""
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
    return replace(new, server=replace(running.server, public_url=public_url), store=store, console=console), ignored


def _at(config: Config, place: Place) -> Any:
    section, key = place
    return getattr(getattr(config, section), key)

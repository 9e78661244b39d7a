"""Defines the configuration as the gateway uses it, frozen and with all defaults filled in.

This module also lists the settings that need a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Final, Literal

from gateway.config.document import ConfigDocument
from gateway.documents.read_document import Place
from gateway.origin import origin_of
from gateway.records.integration import Integration, TraceHeaders
from gateway.secret import Secret


@dataclass(frozen=True, slots=True)
class ClientLimitsConfig:
    """The limits for the client connections of a worker. Times are in seconds.

    `connections`: the maximum number of open client connections. `keep_alive_s`: the maximum time between two requests
    of a connection. `head_s`: the maximum time until a request's head is complete. `answer_idle_s`: the maximum time in
    which a client reads nothing of the gateway's own response. `body_idle_s`: the maximum time in which no byte of a
    request's body arrives. `body_bytes_per_s`: the minimum average rate, after `body_grace_s`, of a body that the
    gateway itself reads. `upload_bytes_per_s`: the minimum average rate of a proxied body, after the gateway has waited
    `upload_grace_s` for the client. A rate of 0 means no limit.
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
    """The settings of the server.

    `public_url`: the base URL of the callback, logos and links, without trailing slash. `admin_host`: the host on which
    `admin_port` listens; None: `host`.
    """

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
    """The settings of the connection cache.

    `ttl_s`: seconds for which a decrypted connection stays in memory. `max_connections`, `max_bytes`: the maximum size
    of the cache. `trust_s`: seconds for which a cached connection is used without checking the store for changes.
    """

    ttl_s: float
    max_connections: int
    trust_s: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """A worker's connections to PostgreSQL. One more connection listens for changes.

    `readers`, `writers`: the numbers of connections. `connect_s`: the maximum seconds to open a connection. `wait_s`:
    the maximum seconds to wait for a free connection. `statement_s`: the maximum seconds for one statement.
    """

    readers: int = 4
    writers: int = 3
    connect_s: float = 5
    wait_s: float = 5
    statement_s: float = 5


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The settings of the store.

    `url`: the URL of the database, which can contain a password. `encryption_keys`: the master keys in standard base64;
    the first key encrypts, and all keys can decrypt.
    """

    url: str = field(repr=False)
    encryption_keys: tuple[Secret, ...]
    pool: PoolConfig = PoolConfig()


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """The settings of one environment.

    `connect_origins`: origins of pages that are allowed to embed the connect page, spelled as in a browser
    (``https://app.example.com``). `connect_links_in_errors`: whether errors 404 and 424 contain a connect link, if the
    caller's key is declared in gateway.yaml.
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
        """Whether each connect session needs a code challenge, so that only the application completes a connection."""
        return self.connect_binding == "required"


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """The limits of connect sessions and of WebSockets that wait for a result.

    `sessions_open`: the maximum number of open connect sessions of a key, on all nodes together. `sessions_per_minute`:
    the maximum number of new sessions of a key per minute, in each worker. `result_sockets`: the maximum number of
    WebSockets in a worker. `result_sockets_per_address`: the maximum number of these from one client address.
    """

    sessions_open: int = 10_000
    sessions_per_minute: int = 600
    result_sockets: int = 20_000
    result_sockets_per_address: int = 1000


@dataclass(frozen=True, slots=True)
class WebhooksConfig:
    """The limits of an integration's incoming webhooks.

    `body_bytes`: the maximum size of one body. `waiting`: the maximum number of waiting webhooks. `waiting_bytes`: the
    maximum size of all waiting webhooks together.
    """

    body_bytes: int = 5 << 20
    waiting: int = 10_000
    waiting_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class BrandingConfig:
    """The operator's brand on pages for end users.

    `name`: the name that pages show; None: pages show no name. `logo`: the image file; None: no logo. `color`,
    `color_dark`: the colors in light and in dark mode, as ``#rrggbb``.
    """

    name: str | None
    logo: Path | None
    color: str
    color_dark: str


@dataclass(frozen=True, slots=True)
class AllowedNetwork:
    """A private network to which connections are allowed. `port`: the allowed port; None: any port."""

    network: IPv4Network | IPv6Network
    port: int | None


@dataclass(frozen=True, slots=True)
class TimeoutsConfig:
    """The timeouts of a call, in seconds. `total_s`: the maximum time for the whole call; None: no maximum."""

    connect_s: float
    first_byte_s: float
    idle_s: float
    total_s: float | None
    max_first_byte_s: float


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """The limits for each origin of a provider.

    `connections`: the maximum number of open connections. `outstanding`: the maximum number of calls whose response has
    not begun. `waiting`: the maximum number of waiting calls. `wait_s`: the maximum seconds that a call waits.
    """

    connections: int
    outstanding: int
    waiting: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class EgressConfig:
    """The settings of outgoing requests.

    `proxy`: the URL of the outbound proxy, which can contain a password; None: no proxy. `page_memory_bytes`: the
    memory in a worker for the pages of all paginated calls together. `trace_headers`: how a caller's ``traceparent`` is
    handled, unless the integration has its own setting.
    """

    allow: tuple[AllowedNetwork, ...]
    proxy: str | None = field(repr=False)
    timeouts: TimeoutsConfig
    limits: LimitsConfig
    page_memory_bytes: int
    trace_headers: TraceHeaders = "pass"


@dataclass(frozen=True, slots=True)
class CallLogConfig:
    """The settings of the call log.

    `keep_days`, `max_bytes`, `max_rows`: the maximum age in days, size in bytes and number of the rows that are kept.
    `max_rows` None: no maximum number. `sample`: the share of successful calls that is logged, from 0 to 1; failed
    calls are always logged.
    """

    enabled: bool
    keep_days: float
    max_bytes: int
    sample: float
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class ConsoleOidcConfig:
    """The identity provider for sign-in to the console.

    `issuer`: the issuer's URL without trailing slash; None: no sign-in with OpenID Connect.
    """

    issuer: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class IdentityHeadersConfig:
    """The headers in which a reverse proxy names the signed-in user.

    `trusted_proxies`: the proxies from which the gateway accepts these headers; empty: the headers are ignored.
    """

    trusted_proxies: tuple[AllowedNetwork, ...] = ()
    user: str = "x-forwarded-user"
    groups: str = "x-forwarded-groups"


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """The settings of the console.

    `enabled`: whether the gateway serves ``/console``. `session_hours`: hours after which a session ends. `operators`,
    `viewers`: groups of users that are allowed to sign in, as named by the identity provider or in identity headers.
    `port`: the console's own port; None: `server.port`. `host`: the host on which the console's own port listens; None:
    `server.host`. `public_url`: the console's base URL; None: `Config.console_url` derives the URL from other settings.
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
    """The settings of the audit log.

    `refreshes`: ``all`` records all token refreshes; ``changes`` records only refreshes that change a connection's
    state. `keep_days`: days for which records are kept; 0: forever. `uses_days`: days for which counts of credential
    uses are kept. `checkpoint_records`, `checkpoint_minutes`: the number of records and the minutes after which the next
    checkpoint is created, whichever is first. A checkpoint is written to the log, appended to `checkpoint_file` and sent
    to `checkpoint_url`; None: no file, no URL.
    """

    refreshes: Literal["changes", "all"]
    keep_days: float
    uses_days: float
    checkpoint_records: int
    checkpoint_minutes: float
    checkpoint_file: Path | None
    checkpoint_url: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """The settings of traces in gateway.yaml. All other settings of traces are `OTEL_*` environment variables.

    `connection_ids`: whether spans name the connection.
    """

    connection_ids: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration.

    `catalog`: the operator's own catalog folders. `path`: the path of the configuration file; None if the configuration
    is a Python mapping. `document`: the parsed file, which knows the lines of the settings.
    """

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

    def file_and_line(self, *place: str) -> str:
        """Return the file and the line of a setting: ``gateway.yaml:17`` for ``"environments", "dev"``.

        If the setting is not in the file, return the line of its nearest parent.
        """
        return self.document.file_and_line(place)

    def at_port(self, port: int, console_port: int | None = None) -> "Config":
        """Return this configuration with the ports on which the gateway listens: for port 0, the system chose one.

        A `public_url` that is derived from the port changes too. `console_port`: the port of the console; None: the
        console has no port of its own.
        """
        is_derived = self.server.public_url == default_public_url(self.server.host, self.server.port)
        public_url = default_public_url(self.server.host, port) if is_derived else self.server.public_url
        server, console = replace(self.server, port=port, public_url=public_url), self.console
        return replace(self, server=server, console=replace(console, port=console_port))


def default_public_url(host: str, port: int) -> str:
    """Return the default value of `server.public_url`, which is used for a loopback host."""
    return origin_of("http", host, port)


# ── Settings that need a restart, because a socket, a process or the store reads them only at the start.

# The place of each setting, and a value that needs no restart, or None. For a port this value is 0: the operating system
# chose the running gateway's port, so a reload with 0 changes nothing.
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


def with_fixed_settings(new_config: Config, current_config: Config) -> tuple[Config, list[Place]]:
    """Return `new_config` with the fixed settings of `current_config`, and the places of changed settings that need a
    restart."""
    ignored = []
    for place, value_without_restart in FIXED.items():
        new_value, current_value = _value_at(new_config, place), _value_at(current_config, place)
        if new_value != current_value and (
            current_value is None or value_without_restart is None or new_value != value_without_restart
        ):
            ignored.append(place)
    server = new_config.server
    is_derived = server.public_url == default_public_url(server.host, server.port)
    host, port = current_config.server.host, current_config.server.port
    public_url = default_public_url(host, port) if is_derived else server.public_url
    store = replace(current_config.store, encryption_keys=new_config.store.encryption_keys)
    console = replace(new_config.console, port=current_config.console.port, host=current_config.console.host)
    config = replace(
        new_config,
        server=replace(current_config.server, public_url=public_url),
        store=store,
        console=console,
        tracing=current_config.tracing,
    )
    return config, ignored


def _value_at(config: Config, place: Place) -> Any:
    section, key = place
    return getattr(getattr(config, section), key)

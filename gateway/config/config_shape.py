"""Defines every key of gateway.yaml, with its type and default. Pydantic validates the file with these classes.

`load_config` converts the result to the classes of `model`. No key is required here, so that a missing key in one
section cannot hide faults in other sections: `load_config` checks required keys.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    StringConstraints,
    model_validator,
)

from gateway.config import store_url, values
from gateway.config import values as key_values
from gateway.config.model import AllowedNetwork, ClientLimitsConfig, ConnectConfig, PoolConfig, WebhooksConfig
from gateway.records.integration import TraceHeaders
from gateway.secret import Secret


def _refuse_boolean(value: object) -> object:
    """Refuse a boolean where a number is required. Pydantic would accept a boolean, because Python's bool is an int."""
    if isinstance(value, bool):
        raise ValueError("must be a number, and this is a boolean")
    return value


def _boolean(value: object) -> object:
    """Convert the texts ``true`` and ``false`` to booleans, because a ``${…}`` reference yields text.

    Other texts, such as ``"yes"``, are not converted, because they could be mistakes.
    """
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _read(check: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that converts a text with `check`. Pydantic refuses values of other types."""

    def read(value: object) -> object:
        if isinstance(value, Secret):
            value = value.reveal()
        return check(value) if isinstance(value, str) else value

    return BeforeValidator(read)


def _client_secret(text: str) -> Secret:
    return Secret(key_values.client_value(text))


# Types of texts. An empty text is always a fault: the operator must leave the key out or set it to null instead.
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
DisplayName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=255)]
ClientId: TypeAlias = Annotated[Text, AfterValidator(key_values.client_value)]
PrivateKey: TypeAlias = Annotated[InstanceOf[Secret], _read(key_values.private_key)]
AppLink: TypeAlias = Annotated[Text, AfterValidator(values.app_link)]
Hidden: TypeAlias = Annotated[InstanceOf[Secret], _read(_client_secret)]
SecretKey: TypeAlias = Annotated[InstanceOf[Secret], _read(key_values.secret_key)]
SigningKey: TypeAlias = Annotated[InstanceOf[Secret], _read(key_values.signing_key)]
EncryptionKey: TypeAlias = Annotated[InstanceOf[Secret], _read(key_values.encryption_key)]
Host: TypeAlias = Annotated[Text, AfterValidator(values.host)]
PublicUrl: TypeAlias = Annotated[Text, AfterValidator(values.public_url)]
WebhookUrl: TypeAlias = Annotated[Text, AfterValidator(values.webhook_url)]
StoreUrl: TypeAlias = Annotated[Text, AfterValidator(store_url.check_store_url)]
OutboundProxy: TypeAlias = Annotated[Text, AfterValidator(values.outbound_proxy)]
Origin: TypeAlias = Annotated[Text, AfterValidator(values.origin)]
AllowedHost: TypeAlias = Annotated[Text, AfterValidator(values.allowed_host)]
Scope: TypeAlias = Annotated[Text, AfterValidator(values.scope)]
PageOrigin: TypeAlias = Annotated[Text, AfterValidator(values.page_origin)]
Color: TypeAlias = Annotated[Text, AfterValidator(values.color)]
WebsocketPath: TypeAlias = Annotated[Text, AfterValidator(values.websocket_path)]
Network: TypeAlias = Annotated[InstanceOf[AllowedNetwork], _read(values.network)]
EnvironmentName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+$", max_length=255)]
VariableName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=255)]
HeaderName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$", max_length=64)]
Variable: TypeAlias = Annotated[InstanceOf[Secret], _read(Secret)]
IntegrationId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9~:.@ _-]+$", max_length=255)]

Whole: TypeAlias = Annotated[int, BeforeValidator(_refuse_boolean)]
Truth: TypeAlias = Annotated[bool, BeforeValidator(_boolean), Field(strict=True)]
Number: TypeAlias = Annotated[float, BeforeValidator(_refuse_boolean), Field(allow_inf_nan=False)]


class Section(BaseModel):
    """Base class of all sections. An unknown key is a fault. ``key:`` without a value means the default value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, sent_value: Any) -> Any:
        if sent_value is None:
            return {}
        if not isinstance(sent_value, dict):
            return sent_value
        return {key: value for key, value in sent_value.items() if value is not None or key not in cls.model_fields}


def _section() -> Any:
    """Return the default of a section that the file leaves out: its keys have their defaults.

    An instance as the default would make pydantic build a second validator for each section, at each start.
    """
    return Field({}, validate_default=True)


_CLIENT: Final = ClientLimitsConfig()


class ClientLimitsShape(Section):
    connections: Whole = Field(_CLIENT.connections, ge=1, le=1_000_000)
    keep_alive_s: Number = Field(_CLIENT.keep_alive_s, gt=0, le=3600)
    head_s: Number = Field(_CLIENT.head_s, gt=0, le=600)
    answer_idle_s: Number = Field(_CLIENT.answer_idle_s, gt=0, le=3600)
    body_idle_s: Number = Field(_CLIENT.body_idle_s, gt=0, le=3600)
    body_grace_s: Number = Field(_CLIENT.body_grace_s, gt=0, le=3600)
    body_bytes_per_s: Whole = Field(_CLIENT.body_bytes_per_s, ge=0, le=1_000_000)
    upload_grace_s: Number = Field(_CLIENT.upload_grace_s, gt=0, le=3600)
    upload_bytes_per_s: Whole = Field(_CLIENT.upload_bytes_per_s, ge=0, le=1_000_000)


class ServerShape(Section):
    host: Host = "127.0.0.1"
    port: Whole = Field(3003, ge=0, le=65535)
    public_url: PublicUrl | None = None
    workers: Whole = Field(1, ge=1, le=256)
    drain_s: Number = Field(30, ge=0, le=3600)
    notice_s: Number = Field(1, ge=0, le=600)
    admin_port: Whole | None = Field(None, ge=0, le=65535)
    admin_host: Host | None = None
    websocket_path: WebsocketPath = "/"
    limits: ClientLimitsShape = _section()


class LiveShape(Section):
    ttl_s: Number = Field(300, gt=0, le=86_400)
    max_connections: Whole = Field(100_000, ge=1, le=10_000_000)
    max_bytes: Whole = Field(1_500_000_000, ge=1 << 20, le=1 << 44)
    trust_s: Number = Field(5, ge=0, le=3600)


_POOL: Final = PoolConfig()


class PoolShape(Section):
    readers: Whole = Field(_POOL.readers, ge=1, le=1000)
    writers: Whole = Field(_POOL.writers, ge=1, le=1000)
    connect_s: Number = Field(_POOL.connect_s, gt=0, le=60)
    wait_s: Number = Field(_POOL.wait_s, gt=0, le=60)
    statement_s: Number = Field(_POOL.statement_s, gt=0, le=600)


class StoreShape(Section):
    url: StoreUrl = "sqlite:///gateway.db"
    encryption_keys: list[EncryptionKey | None] = []
    pool: PoolShape = _section()


class IntegrationShape(Section):
    provider: Text | None = None
    client_id: ClientId | None = None
    client_secret: Hidden | None = None
    app_id: ClientId | None = None
    app_link: AppLink | None = None
    private_key: PrivateKey | None = None
    scopes: list[Scope | None] | None = None
    display_name: DisplayName | None = None
    allowed_origins: list[Origin | None] = []
    allowed_hosts: list[AllowedHost | None] = []
    forward_set_cookie: Truth = False
    site_selection: Literal["match", "ask"] = "match"
    webhook_secret: Hidden | None = None
    webhook_secret_previous: Hidden | None = None
    forward_webhooks: Truth = True
    allow_unsigned_webhooks: Truth = False
    trace_headers: TraceHeaders | None = None


class EnvironmentShape(Section):
    secret_keys: list[SecretKey | None] = []
    webhook_url: WebhookUrl | None = None
    webhook_url_secondary: WebhookUrl | None = None
    webhook_signing_key: SigningKey | None = None
    webhook_signing_key_previous: SigningKey | None = None
    variables: dict[VariableName, Variable] = {}
    connect_origins: list[PageOrigin | None] = []
    connect_links_in_errors: Truth = False
    connect_binding: Literal["optional", "required"] = "optional"
    integrations: dict[IntegrationId, IntegrationShape] = {}


class TimeoutsShape(Section):
    connect_s: Number = Field(10, gt=0, le=600)
    first_byte_s: Number = Field(60, gt=0, le=86_400)
    idle_s: Number = Field(60, gt=0, le=86_400)
    total_s: Number | None = Field(None, gt=0, le=604_800)
    max_first_byte_s: Number = Field(600, gt=0, le=86_400)


class LimitsShape(Section):
    connections: Whole = Field(20_000, ge=1, le=1_000_000)
    outstanding: Whole = Field(1000, ge=1, le=1_000_000)
    waiting: Whole = Field(5000, ge=0, le=1_000_000)
    wait_s: Number = Field(10, ge=0, le=600)


class EgressShape(Section):
    allow: list[Network | None] = []
    proxy: OutboundProxy | None = None
    timeouts: TimeoutsShape = _section()
    limits: LimitsShape = _section()
    page_memory_bytes: Whole = Field(256 << 20, ge=64 << 20, le=1 << 40)
    trace_headers: TraceHeaders = "pass"


_CONNECT: Final = ConnectConfig()


class ConnectShape(Section):
    sessions_open: Whole = Field(_CONNECT.sessions_open, ge=1, le=10_000_000)
    sessions_per_minute: Whole = Field(_CONNECT.sessions_per_minute, ge=1, le=1_000_000)
    result_sockets: Whole = Field(_CONNECT.result_sockets, ge=1, le=1_000_000)
    result_sockets_per_address: Whole = Field(_CONNECT.result_sockets_per_address, ge=1, le=1_000_000)


class CallLogShape(Section):
    enabled: Truth = True
    keep_days: Number = Field(7, gt=0, le=3650)
    max_bytes: Whole = Field(1 << 30, ge=16 << 20, le=1 << 44)
    sample: Number = Field(1, ge=0, le=1)


class TracingShape(Section):
    connection_ids: Truth = False


class RequestLogShape(Section):
    """The section `request_log`, the name of `call_log` in releases before 0.3.

    If a key of this section is None, the key of `call_log` applies.
    """

    enabled: Truth | None = None
    keep_days: Number | None = Field(None, gt=0, le=3650)
    max_rows: Whole | None = Field(None, ge=1, le=1_000_000_000)


class AuditShape(Section):
    refreshes: Literal["changes", "all"] = "changes"
    keep_days: Number = Field(0, ge=0, le=36_500)
    uses_days: Number = Field(90, gt=0, le=3650)
    checkpoint_records: Whole = Field(1000, ge=1, le=1_000_000)
    checkpoint_minutes: Number = Field(5, gt=0, le=10_080)
    checkpoint_file: Text | None = None
    checkpoint_url: WebhookUrl | None = None


_WEBHOOKS: Final = WebhooksConfig()


class WebhooksShape(Section):
    body_bytes: Whole = Field(_WEBHOOKS.body_bytes, ge=1024, le=64 << 20)
    waiting: Whole = Field(_WEBHOOKS.waiting, ge=1, le=1_000_000)
    waiting_bytes: Whole = Field(_WEBHOOKS.waiting_bytes, ge=1024, le=1 << 40)


class BrandingShape(Section):
    name: DisplayName | None = None
    logo: Text | None = None
    color: Color = "#0b63ce"
    color_dark: Color = "#7ab4ff"


class ConsoleOidcShape(Section):
    issuer: PublicUrl | None = None
    client_id: ClientId | None = None
    client_secret: Hidden | None = None
    scopes: list[Scope | None] = ["openid", "profile", "email"]
    groups_claim: Text = "groups"


class IdentityHeadersShape(Section):
    trusted_proxies: list[Network | None] = []
    user: HeaderName = "x-forwarded-user"
    groups: HeaderName = "x-forwarded-groups"


class ConsoleShape(Section):
    enabled: Truth = False
    port: Whole | None = Field(None, ge=0, le=65535)
    host: Host | None = None
    public_url: PublicUrl | None = None
    session_hours: Number = Field(12, gt=0, le=168)
    operators: list[Text | None] = []
    viewers: list[Text | None] = []
    oidc: ConsoleOidcShape = _section()
    identity_headers: IdentityHeadersShape = _section()


class GatewayShape(Section):
    server: ServerShape = _section()
    live: LiveShape = _section()
    store: StoreShape = _section()
    catalog: list[Text | None] = []
    environments: dict[EnvironmentName, EnvironmentShape] = {}
    egress: EgressShape = _section()
    call_log: CallLogShape = _section()
    request_log: RequestLogShape = _section()
    audit: AuditShape = _section()

    tracing: TracingShape = _section()
    webhooks: WebhooksShape = _section()
    branding: BrandingShape = _section()
    connect: ConnectShape = _section()
    console: ConsoleShape = _section()


SECTIONS: Final[Mapping[tuple[str, ...], type[Section]]] = {
    (): GatewayShape,
    ("server",): ServerShape,
    ("server", "limits"): ClientLimitsShape,
    ("live",): LiveShape,
    ("store",): StoreShape,
    ("store", "pool"): PoolShape,
    ("environments", "*"): EnvironmentShape,
    ("environments", "*", "integrations", "*"): IntegrationShape,
    ("egress",): EgressShape,
    ("egress", "timeouts"): TimeoutsShape,
    ("egress", "limits"): LimitsShape,
    ("call_log",): CallLogShape,
    ("request_log",): RequestLogShape,
    ("audit",): AuditShape,
    ("tracing",): TracingShape,
    ("webhooks",): WebhooksShape,
    ("branding",): BrandingShape,
    ("connect",): ConnectShape,
    ("console",): ConsoleShape,
    ("console", "oidc"): ConsoleOidcShape,
    ("console", "identity_headers"): IdentityHeadersShape,
}
"""The class of each section, by the section's place in the file. ``*`` is a name that the operator chooses."""

FORMER: Final = frozenset({("request_log",)})
"""Former names of sections, which are still accepted but no longer documented."""

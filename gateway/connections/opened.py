"""A connection ready for use: its records and provider, and its templates filled once for many calls."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from gateway.auth.context import AuthContext, chosen_alternative, fill_json, fill_url, plain_values
from gateway.auth.mode import AuthMode, Signer
from gateway.auth.request_templates import RequestTemplates, Signers, unfilled_error
from gateway.catalog.provider import Provider
from gateway.catalog.render import (
    Moment,
    Unresolved,
    carries_credential,
    credential_names,
    differs_each_time,
    find_value,
    needs_request,
    render_text,
)
from gateway.catalog.value import BadValue
from gateway.errors import InvalidRequest
from gateway.http.body_members import BodyMembers
from gateway.http.references import MASK, mask_secrets
from gateway.origin import ParsedUrl, parse_url
from gateway.records.connection import Connection
from gateway.records.integration import Integration
from gateway.records.provider_call import MIN_SECRET_CHARS, ClientIdentity

# ── The opened connection, which the proxy path reads: records, provider and filled templates.

_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Placement:
    """The parts of every request of this connection that the gateway sets.

    `slots` carry the credential and replace the caller's header fields with these (lower-case) names. `defaults` are
    used if the caller sent no such field. `query_slots` and `query_defaults` are the same for query parameters, and are
    percent-encoded. `signer`: signs each request after all other parts are set, None if requests are not signed.
    `body`: members that are added to the caller's JSON object or form, None if there are none.
    """

    slots: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    defaults: tuple[tuple[str, str], ...] = ()
    query_slots: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    query_defaults: tuple[tuple[str, str], ...] = ()
    signer: Signer | None = field(default=None, repr=False)
    body: BodyMembers | None = field(default=None, repr=False)

    @property
    def query_names(self) -> frozenset[str]:
        """Decoded names of the query parameters that carry the credential."""
        signed = self.signer.query_fields if self.signer is not None else ()
        return frozenset((*signed, *(unquote(name) for name, _ in self.query_slots)))

    @property
    def signs_request(self) -> bool:
        """Whether a signer computes the credential for each request, in addition to slots and defaults."""
        return self.signer is not None


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """A connection ready for use. `base`: the entry's `proxy.base_url`, filled with this connection's settings.

    `allowed_origins`: origins that may receive the credential, in the format of `ParsedUrl.origin` and
    `UpstreamRequest.origin`. The first label of a host can be ``*``, so compare origins with `origin.covers`.
    `identity`: the client certificate for mutual TLS, else None. `for_one_request`: whether this object may be used for
    only one request. This is the case if the entry's templates contain ``${now}`` or ``${random}``, or if the
    mode's credential is valid only once.
    """

    connection: Connection
    integration: Integration
    provider: Provider
    base: ParsedUrl
    allowed_origins: frozenset[str]
    placement: Placement = field(repr=False)
    identity: ClientIdentity | None = field(default=None, repr=False)
    for_one_request: bool = False
    secret_base: str | None = field(default=None, repr=False)
    """The template of `base` if it contains a credential or a secret setting, else None. The template is shown instead
    of the URL."""
    url_secrets: tuple[str, ...] = field(default=(), repr=False)
    """Decoded parts of the credential that the URL of each request contains."""
    fast_route: list[Any] = field(default_factory=list, repr=False, compare=False)
    """The fast path's route to the provider with this credential. The list has at most one item."""

    @property
    def shown_base_path(self) -> str:
        """The path of `base`. A credential or a secret setting in the path is masked."""
        if self.secret_base is None:
            return self.base.path
        below_host = self.secret_base.partition("://")[2].partition("/")[2]
        return "/" + _PLACEHOLDER.sub(MASK, below_host) if below_host else ""

    def path_for_rules(self, path: str) -> str:
        """Return the path of a request with which a key's rules are compared. A credential in the base path is masked.
        Otherwise the holder of a key could use rules to guess the credential."""
        if self.secret_base is None or not path.startswith(self.base.path):
            return path
        return self.shown_base_path + path[len(self.base.path) :]

    def without_secrets(self, reference: str) -> str:
        """Return a URL from a provider's response, with the secrets of the request's URL masked."""
        path = self.base.path
        if self.secret_base is not None and path:  # also masks a credential that is too short to be searched for
            reference = reference.replace(path, self.shown_base_path).replace(unquote(path), self.shown_base_path)
        return mask_secrets(reference, self.url_secrets) if self.url_secrets else reference


def open_connection(
    connection: Connection,
    integration: Integration,
    provider: Provider,
    mode: AuthMode,
    credential: Mapping[str, Any],
    secret_config: Mapping[str, Any],
) -> OpenedConnection:
    """Return the opened connection. `credential`: the decrypted credential.

    Raises InvalidRequest ``unresolved_setting`` if a setting is missing or invalid.
    """
    config = {**connection.config, **secret_config}
    context = AuthContext(provider, integration, config, connection.metadata)
    base = base_url(provider, config, mode, credential)
    origins = frozenset(_origins(base, integration, provider, config))
    # The operator chose the integration's own origins. All other origins can come from a setting, so they are checked.
    context = context.for_destinations(*(origins - {*integration.allowed_origins}))
    request_parts = placement(mode, credential, context)
    secret_base = _secret_base(provider, config)
    return OpenedConnection(
        connection=connection,
        integration=integration,
        provider=provider,
        base=base,
        allowed_origins=origins,
        placement=request_parts,
        identity=mode.identity(credential),
        secret_base=secret_base,
        url_secrets=tuple(
            _url_secrets(provider, secret_base, request_parts, plain_values(context.values(mode.values(credential))))
        ),
        for_one_request=mode.single_use
        or any(map(differs_each_time, (*provider.proxy.headers.values(), *provider.proxy.query.values()))),
    )


def base_url(provider: Provider, config: Mapping[str, Any], mode: AuthMode, credential: Mapping[str, Any]) -> ParsedUrl:
    """Return the base URL of requests. Settings in the URL are checked at every use, not only when they are stored.
    Some entries put the credential into the path of the base URL."""
    return _parsed_url(
        provider, fill_url(provider, _base_template(provider, config), config, plain_values(mode.values(credential)))
    )


def _base_template(provider: Provider, config: Mapping[str, Any]) -> str:
    return chosen_alternative(provider, "proxy.base_url", provider.proxy.base_url, config) or provider.proxy.base_url


def _secret_base(provider: Provider, config: Mapping[str, Any]) -> str | None:
    """Return the template of the base URL if it contains a credential or a secret setting, else None."""
    template = _base_template(provider, config)
    if "${" not in template:
        return None
    secret_settings = {name for name, setting in provider.connection_config.items() if setting.secret}
    return template.rstrip("/") if carries_credential(template, secret_settings=secret_settings) else None


def _url_secrets(
    provider: Provider, secret_base: str | None, request_parts: Placement, values: Mapping[str, str]
) -> Iterator[str]:
    secrets = [unquote(text) for _, text in request_parts.query_slots]
    if secret_base is not None:
        secret_settings = {name for name, setting in provider.connection_config.items() if setting.secret}
        names = credential_names(secret_base, secret_settings=secret_settings)
        secrets += [text for name in names if (text := find_value(values, name)) is not None]
    yield from (text for text in dict.fromkeys(secrets) if len(text) >= MIN_SECRET_CHARS)


def _parsed_url(provider: Provider, url: str) -> ParsedUrl:
    try:
        return parse_url(url)
    except ValueError as fault:
        raise InvalidRequest(
            "unresolved_setting",
            f"A URL of provider '{provider.name}' cannot be used with this connection's settings: {fault}.",
        ) from fault


def placement(mode: AuthMode, credential: Mapping[str, Any], context: AuthContext) -> Placement:
    """Fill the templates of the entry's headers and query, and return the result. Templates that contain the credential
    become slots. All other templates become defaults.

    A signer fills templates that use parts of the request. The signer then also fills templates with a time or a random
    value, so that all templates of a request use the same values.
    """
    provider = context.provider
    values = plain_values(context.values(mode.values(credential)))
    headers = {name.lower(): template for name, template in provider.proxy.headers.items()}
    secret_settings = {name for name, setting in provider.connection_config.items() if setting.secret}

    def is_slot(template: str) -> bool:
        return carries_credential(template, secret_settings=secret_settings)

    if not any(map(is_slot, (*headers.values(), *provider.proxy.query.values()))):
        headers |= mode.default_headers(provider)
    fixed_headers, fixed_query, per_request_templates = _separate_per_request_templates(
        headers, provider.proxy.query, values
    )
    moment = Moment()
    slots, defaults = _rendered_slots_and_defaults(fixed_headers, is_slot, values, moment)
    query_slots, query_defaults = _rendered_slots_and_defaults(fixed_query, is_slot, values, moment)
    return Placement(
        slots=tuple(slots),
        defaults=tuple(defaults),
        query_slots=tuple((quote(name, safe=""), quote(text, safe="")) for name, text in query_slots),
        query_defaults=tuple((quote(name, safe=""), quote(text, safe="")) for name, text in query_defaults),
        signer=_combined_signer(per_request_templates, mode.signer(credential, context)),
        body=_body_members(provider.proxy.body, is_slot, values, moment) if provider.proxy.body else None,
    )


def _separate_per_request_templates(
    headers: Mapping[str, str], query: Mapping[str, str], values: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, str], RequestTemplates | None]:
    """Separate the templates that are filled only once from the templates that are filled again for each request."""
    if not any(map(needs_request, (*headers.values(), *query.values()))):
        return headers, query, None

    def is_per_request(template: str) -> bool:
        return needs_request(template) or differs_each_time(template)

    per_request_headers = {name: template for name, template in headers.items() if is_per_request(template)}
    per_request_query = {name: template for name, template in query.items() if is_per_request(template)}
    return (
        {name: template for name, template in headers.items() if name not in per_request_headers},
        {name: template for name, template in query.items() if name not in per_request_query},
        RequestTemplates(per_request_headers, per_request_query, values),
    )


def _body_members(
    templates: Mapping[str, Any], is_slot: Callable[[str], bool], values: Mapping[str, str], moment: Moment
) -> BodyMembers:
    """Return the body's slots and defaults. A text that contains the credential is a slot. A list with such a text is
    also a slot."""

    def select(value: Any, *, slots: bool) -> Any:
        if isinstance(value, Mapping):
            inner = {name: select(member, slots=slots) for name, member in value.items()}
            return {name: member for name, member in inner.items() if member is not None}
        has_credential = any(
            is_slot(text) for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)
        )
        return value if has_credential is slots else None

    slots, defaults = (fill_json(select(templates, slots=is_slots), values, moment) for is_slots in (True, False))
    return BodyMembers(slots, defaults)


def _combined_signer(templates: RequestTemplates | None, signer: Signer | None) -> Signer | None:
    signers = tuple(part for part in (templates, signer) if part is not None)
    return Signers(signers) if len(signers) > 1 else next(iter(signers), None)


def _rendered_slots_and_defaults(
    templates: Mapping[str, str], is_slot: Callable[[str], bool], values: Mapping[str, str], moment: Moment
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    slots: list[tuple[str, str]] = []
    defaults: list[tuple[str, str]] = []
    for name, template in templates.items():
        has_credential = is_slot(template)
        try:
            text = render_text(template, values, moment=moment)
        except (Unresolved, BadValue) as fault:
            if isinstance(fault, Unresolved) and not has_credential:
                continue  # a header built from a setting that this connection does not have is left out
            raise unfilled_error(name, fault) from fault
        (slots if has_credential else defaults).append((name, text))
    return slots, defaults


def _origins(base: ParsedUrl, integration: Integration, provider: Provider, config: Mapping[str, Any]) -> Iterator[str]:
    yield base.origin
    for template in (*provider.proxy.allowed_origins, *integration.allowed_origins):
        if "://*." in template:
            yield _parsed_url(provider, template.replace("*", "any", 1)).origin.replace("any", "*", 1)
        else:
            yield _parsed_url(provider, fill_url(provider, template, config) if "${" in template else template).origin

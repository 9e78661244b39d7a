"""What a shape cannot say of templates: whether they parse, whether they may stand there, and what will ever fill them."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from gateway.catalog.address import parse_address
from gateway.catalog.auth_modes import AUTH_MODES, REQUEST
from gateway.catalog.names import spellings
from gateway.catalog.places import Place, addresses, dotted, header_maps, known_settings, texts
from gateway.catalog.provider import Provider
from gateway.catalog.template import TemplateError, placeholders

Finding = tuple[Place, str]

_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# Framing, hop-by-hop and our own fields: the gateway alone writes or drops them (RFC 9110 §7.6.1).
_NOT_FOR_ENTRIES: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer"}
    | {"upgrade", "provider-config-key", "connection-id"}
)


def template_faults(provider: Provider) -> Iterator[Finding]:
    """Everything that is wrong with the templates of an entry, as (path in the file, message)."""
    yield from _addresses(provider)
    yield from _texts(provider)
    for place, fields in header_maps(provider):
        yield from _field_names(place, fields)


def _addresses(provider: Provider) -> Iterator[Finding]:
    for place, template in addresses(provider):
        try:
            address = parse_address(template)
        except TemplateError as wrong:
            yield place, f"{dotted(place)}: {wrong}"
            continue
        if _has_dot_segment(template):
            yield place, f"{dotted(place)} has a segment '.' or '..' in its path; write the address it leads to"
        if place[:2] == ("proxy", "allowed_origins") and (address.query or address.path not in {(), ("/",)}):
            yield place, "an allowed origin is scheme, host and port only, such as https://uploads.example.com"
        if place == ("proxy", "base_url") and address.query:
            yield place, "a base address has no query; put it in proxy.query"
        yield from _unfilled(provider, place, template)
    for index, path in enumerate((provider.proxy.verification and provider.proxy.verification.endpoints) or ()):
        place = ("proxy", "verification", "endpoints", index)
        if not path.startswith("/"):
            yield place, "an endpoint is a path below the base address and begins with '/'"
            continue
        try:
            parse_address(f"https://host{path}")
        except TemplateError as wrong:
            yield place, f"{dotted(place)}: {wrong}"
        else:
            if _has_dot_segment(path):
                yield place, f"{dotted(place)} has a segment '.' or '..'; write the path it leads to"
            yield from _unfilled(provider, place, path)


def _has_dot_segment(template: str) -> bool:
    """As `/proxy` refuses them in a caller's path: plain or percent-encoded, between any kind of slash."""
    path = template.partition("?")[0].rpartition("://")[2]
    steps = re.split(r"(?i)/|%2f|%5c", re.sub(r"(?i)%2e", ".", path))
    return any(step.partition(";")[0] in {".", ".."} for step in steps)


def _texts(provider: Provider) -> Iterator[Finding]:
    for place, template in texts(provider):
        try:
            names = placeholders(template)
        except TemplateError as wrong:
            yield place, f"{dotted(place)}: {wrong}"
            continue
        if names and re.search(r"\}\s*\|\|", template):
            yield place, "templates have no '||'; give the setting a default_value instead"
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", template):
            yield place, "holds a line break or another control character"
        yield from _unfilled(provider, place, template)


def _field_names(place: Place, fields: Mapping[str, str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for name in fields:
        folded = name.lower()
        if not _FIELD_NAME.fullmatch(name):
            yield (*place, name), f"{name!r} cannot name a header field"
        elif folded in _NOT_FOR_ENTRIES:
            yield (*place, name), f"{name} belongs to the connection, not to the entry; leave it out"
        elif folded in seen:
            yield (*place, name), f"{name} is given twice in different case; keep one"
        seen.add(folded)


def _unfilled(provider: Provider, place: Place, template: str) -> Iterator[Finding]:
    """Placeholders that neither a setting, the credential nor the request will ever fill."""
    settings = known_settings(provider)
    for name in sorted(placeholders(template)):
        namespace, _, rest = name.partition(".")
        if name in REQUEST and place[:2] not in {("proxy", "headers"), ("proxy", "query")}:
            yield place, f"${{{name}}} is known of a proxied request only; use it in proxy.headers or proxy.query"
        elif namespace == "connectionConfig" and rest not in settings:
            yield place, f"${{{name}}} has no setting; add {rest!r} to connection_config"
        elif namespace == "assertionOption" and rest not in provider.assertion_option:
            yield place, f"${{{name}}} has no field; add {rest!r} to assertion_option"
        elif namespace.startswith("step") and rest and not _is_earlier_step(provider, place, namespace):
            yield place, f"${{{name}}} is not known here; the token request is step1, additional_steps are step2 and on"
        elif not _is_filled(provider, name):
            mode = AUTH_MODES[provider.auth_mode]
            known = sorted({*mode.fills, *mode.members, *provider.credentials})
            filled = ", ".join(f"${{{one}}}" for one in known) or "none"
            yield place, f"${{{name}}} is not filled by auth_mode {provider.auth_mode}; it fills {filled}"


def _is_earlier_step(provider: Provider, place: Place, namespace: str) -> bool:
    asked = int(namespace.removeprefix("step"))
    if place[0] == "additional_steps":
        return asked < int(place[1]) + 2
    return place[0] == "proxy" and asked <= len(provider.additional_steps or ()) + 1


def _is_filled(provider: Provider, name: str) -> bool:
    mode = AUTH_MODES.get(provider.auth_mode)
    namespace, dot, rest = name.partition(".")
    if mode is None or name in REQUEST or (dot and namespace != "credentials"):
        return True
    known = {*mode.fills, *provider.credentials}
    if dot:
        return rest.startswith("raw.") or rest in mode.members or any(one in known for one in spellings(name))
    return any(one in known for one in spellings(name))

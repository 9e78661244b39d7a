"""Finds the templates of an entry, and the names of the settings that a connection can have.

The place of a template is its path in the entry's file, from which messages get the line.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.catalog.provider import Provider

Place = tuple[str | int, ...]

URL_FIELDS: Final = (
    "authorization_url", "token_url", "refresh_url", "revocation_url", "introspection_url",
    "request_url", "registration_url", "installation_token_url", "installation_access_url",
)  # fmt: skip
_PARAMETERS: Final = (
    "authorization_params", "request_params", "token_params", "token_headers", "refresh_params",
)  # fmt: skip


def url_templates(provider: Provider) -> Iterator[tuple[Place, str]]:
    """Yield every URL template of an entry with its place."""
    for key in URL_FIELDS:
        if (template := getattr(provider, key)) is not None:
            yield (key,), template
    for index, step in enumerate(provider.additional_steps or ()):
        yield ("additional_steps", index, "url"), step.url
    for key, templates in provider.alternatives.items():
        for index, template in enumerate(templates):
            yield ("alternatives", key, index), template
    proxy = provider.proxy
    yield ("proxy", "base_url"), proxy.base_url
    for index, origin in enumerate(proxy.allowed_origins):
        yield ("proxy", "allowed_origins", index), origin
    if proxy.verification is not None and proxy.verification.base_url_override is not None:
        yield ("proxy", "verification", "base_url_override"), proxy.verification.base_url_override
    if provider.account is not None and provider.account.endpoint and not provider.account.endpoint.startswith("/"):
        yield ("account", "endpoint"), provider.account.endpoint


def text_templates(provider: Provider) -> Iterator[tuple[Place, str]]:
    """Yield the templates of parameters, header fields, bodies and JWTs of an entry, each with its place."""
    proxy = provider.proxy
    values: list[tuple[Place, Any]] = [((key,), getattr(provider, key)) for key in _PARAMETERS]
    values += [(("token_body",), provider.token_body), (("jwt",), provider.jwt and _templates_of_jwt(provider))]
    for key in ("revocation", "introspection"):
        if (call := getattr(provider, key)) is not None:
            values += [((key, "headers"), call.headers), ((key, "params"), call.params)]
    for index, step in enumerate(provider.additional_steps or ()):
        values += [(("additional_steps", index, part), getattr(step, part)) for part in ("params", "headers", "body")]
    if provider.request_signing is not None:
        signing = provider.request_signing
        values += [(("request_signing", part), getattr(signing, part)) for part in ("region", "service")]
    values += [(("proxy", part), getattr(proxy, part)) for part in ("headers", "query", "body", "path_form")]
    if proxy.verification is not None:
        values += [(("proxy", "verification", part), getattr(proxy.verification, part)) for part in ("headers", "data")]
    if provider.account is not None:
        values.append((("account", "headers"), provider.account.headers))
    for place, value in values:
        yield from _texts_in(place, value)


def header_maps(provider: Provider) -> Iterator[tuple[Place, Mapping[str, str]]]:
    """Yield every mapping of header fields in an entry, with its place."""
    yield ("token_headers",), provider.token_headers
    yield ("proxy", "headers"), provider.proxy.headers
    if provider.proxy.verification is not None:
        yield ("proxy", "verification", "headers"), provider.proxy.verification.headers
    for key in ("revocation", "introspection"):
        if (call := getattr(provider, key)) is not None:
            yield (key, "headers"), call.headers
    if provider.account is not None:
        yield ("account", "headers"), provider.account.headers
    for index, step in enumerate(provider.additional_steps or ()):
        yield ("additional_steps", index, "headers"), step.headers


def known_settings(provider: Provider) -> frozenset[str]:
    """Return the names of all settings that a connection can have.

    They are declared by the entry, or read from a response or a callback.
    """
    captured_settings = (*(provider.token_response_metadata or ()), *(provider.redirect_uri_metadata or ()))
    account_settings = provider.account.settings if provider.account is not None else ()
    return frozenset(
        (*provider.connection_config, *(provider.connection_configuration or ()), *captured_settings, *account_settings)
    )


def _templates_of_jwt(provider: Provider) -> dict[str, Any]:
    jwt = provider.jwt
    return {"header": jwt.header, "claims": jwt.claims, "key": jwt.key} if jwt else {}


def _texts_in(place: Place, value: Any) -> Iterator[tuple[Place, str]]:
    match value:
        case str():
            yield place, value
        case Mapping():
            for name, member in value.items():
                yield from _texts_in((*place, name), member)
        case list():
            for index, member in enumerate(value):
                yield from _texts_in((*place, index), member)

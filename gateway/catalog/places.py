"""Where an entry holds templates, and what can fill them: places as paths in the file, for messages with a line."""

from collections.abc import Iterator, Mapping

from gateway.catalog.provider import Provider

Place = tuple[str | int, ...]


def dotted(place: Place) -> str:
    """``proxy.allowed_origins[0]``"""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def addresses(provider: Provider) -> Iterator[tuple[Place, str]]:
    """Every address template of an entry and where it stands."""
    for key in ("authorization_url", "token_url", "refresh_url", "revocation_url"):
        if (template := getattr(provider, key)) is not None:
            yield (key,), template
    proxy = provider.proxy
    yield ("proxy", "base_url"), proxy.base_url
    for index, origin in enumerate(proxy.allowed_origins):
        yield ("proxy", "allowed_origins", index), origin
    if proxy.verification is not None and proxy.verification.base_url_override is not None:
        yield ("proxy", "verification", "base_url_override"), proxy.verification.base_url_override


def texts(provider: Provider) -> Iterator[tuple[Place, str]]:
    """Every other template of an entry and where it stands."""
    proxy = provider.proxy
    maps: list[tuple[Place, Mapping[str, str]]] = [
        (("authorization_params",), provider.authorization_params),
        (("token_params",), provider.token_params),
        (("refresh_params",), provider.refresh_params),
        (("token_headers",), provider.token_headers),
        (("proxy", "headers"), proxy.headers),
        (("proxy", "query"), proxy.query),
    ]
    if proxy.verification is not None:
        maps.append((("proxy", "verification", "headers"), proxy.verification.headers))
    for place, entries in maps:
        yield from (((*place, name), template) for name, template in entries.items())
    if proxy.path_form is not None:
        yield ("proxy", "path_form"), proxy.path_form


def known_settings(provider: Provider) -> frozenset[str]:
    """Names of settings that a connection can come to have: declared, or captured when it is made."""
    captured = (*(provider.token_response_metadata or ()), *(provider.redirect_uri_metadata or ()))
    return frozenset((*provider.connection_config, *(provider.connection_configuration or ()), *captured))

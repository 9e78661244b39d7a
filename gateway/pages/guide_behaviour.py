"""How a provider behaves, as far as its entry knows, in sentences for people."""

from collections.abc import Iterator
from typing import Final

from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
from gateway.catalog.hosts import open_secret_addresses
from gateway.catalog.provider import Paginate, Provider, RefreshPolicy
from gateway.wording import counted

_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def behaviour(provider: Provider) -> list[tuple[str, str]]:
    """A title and a sentence for each thing that is known."""
    return list(_behaviour(provider))


def _behaviour(provider: Provider) -> Iterator[tuple[str, str]]:
    proxy = provider.proxy
    yield "Requests go to", proxy.base_url
    mode = AUTH_MODES.get(provider.auth_mode, ModeFormat(""))
    has_client = bool(mode.integration) or provider.auth_mode == "MCP_OAUTH2_GENERIC"
    if has_client and (chosen := next(open_secret_addresses(provider), None)):
        yield "The client secret", _on_hosts(chosen[1])
    if provider.refresh is not None and (told := " ".join(_on_refresh(provider.refresh))):
        yield "Tokens", told
    if proxy.paginate is not None:
        yield "Lists", _on_paging(proxy.paginate)
    if provider.revocation_url:
        yield "Deleting a connection", "ends its tokens at the provider, too."
    if proxy.verification is not None and not mode.redirects:
        yield "A new credential", "is tried before it is stored."
    if provider.webhook_signature is not None:
        signature = provider.webhook_signature
        yield "Webhooks", f"are signed in the field {signature.header} ({signature.scheme})."


def _on_hosts(setting: str) -> str:
    return (
        f"goes only to hosts that the integration names in allowed_hosts, since users choose the host by the setting "
        f"'{setting}'. Without it, users connect as with a public client (PKCE), or with a client of their own."
    )


def _on_paging(paginate: Paginate) -> str:
    parts = (paginate.cursor_name_in_request, paginate.offset_name_in_request, paginate.limit_name_in_request)
    named = ", ".join(part for part in parts if part)
    return f"are paged by {paginate.type}" + (f": {named}." if named else ".")


def _on_refresh(refresh: RefreshPolicy) -> Iterator[str]:
    if refresh.access_token_lifetime_s:
        yield f"Access tokens live about {_span(refresh.access_token_lifetime_s)}."
    if refresh.rotating:
        yield "Each refresh brings a new refresh token and ends the old one."
    if refresh.expires_after_days_unused:
        yield f"A refresh token that is not used for {counted(refresh.expires_after_days_unused, 'day')} is dead."
    if refresh.expires_after_days_owner_inactive:
        yield f"It dies, too, when its owner is inactive for {counted(refresh.expires_after_days_owner_inactive, 'day')}."
    if refresh.expires_after_days:
        yield f"After {counted(refresh.expires_after_days, 'day')} the user has to connect again."


def _span(seconds: int) -> str:
    for size, unit in _UNITS:
        if seconds >= 2 * size or (seconds >= size and seconds % size == 0):
            count = round(seconds / size)
            return counted(count, unit)
    return counted(seconds, "second")

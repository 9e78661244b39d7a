"""The entry's script completes a credential's settings, or refuses it, before anything is stored."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gateway.auth.mode import AuthMode
from gateway.catalog.provider import Provider
from gateway.connections.new_credential import NewCredential
from gateway.egress.client import Egress
from gateway.errors import GatewayError, InvalidRequest, UpstreamFailed
from gateway.records.integration import Integration
from gateway.scripts import POST_CONNECTION
from gateway.scripts.context import ProviderUnreadable, Refused, Site, SiteOpen
from gateway.wording import sentence


class SiteWanted(InvalidRequest):
    """Several sites fit, and the integration leaves the choice to the end user: whoever has one asks, others are refused."""

    sites: tuple[Site, ...] = ()


async def completed(
    egress: Egress,
    provider: Provider,
    integration: Integration,
    mode: AuthMode,
    held: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> NewCredential:
    """The credential with the settings that the entry's script finds. Raises InvalidRequest, SiteWanted, UpstreamFailed."""
    script = POST_CONNECTION.get(provider.post_connection_script or "")
    context = NewCredential(provider, integration, mode, held, settings, egress)
    if script is not None:
        try:
            await script(context)
        except Refused as refusal:
            raise InvalidRequest(
                "connection_validation_failed", refusal.message, payload=refusal.payload or None
            ) from refusal
        except SiteOpen as choice:
            raise _site_wanted(choice) from None
        except ProviderUnreadable as fault:
            raise _unreadable(provider, fault) from fault
    return context


def _site_wanted(choice: SiteOpen) -> SiteWanted:
    names = ", ".join(urlsplit(site.url).hostname or site.name for site in choice.sites)
    wanted = SiteWanted(
        "connection_validation_failed",
        f"This credential reaches several sites, and the integration leaves the choice to the end user: {names}. Name one "
        "by its subdomain or cloudId.",
        payload={"sites": [{**site.settings, "url": site.url} for site in choice.sites]},
    )
    wanted.sites = choice.sites
    return wanted


def _unreadable(provider: Provider, fault: ProviderUnreadable) -> GatewayError:
    """A credential that its own provider refuses is the caller's fault; a provider that cannot be asked is not."""
    message = (
        f"{provider.display_name} could not be asked which sites this credential reaches: {sentence(fault.message)}"
    )
    if fault.refused:
        return InvalidRequest(
            "connection_test_failed",
            f"{message} It does not take this credential: check that it is valid, not expired, and granted to this app.",
        )
    return UpstreamFailed("upstream_unreachable", f"{message} Nothing was stored; try again.")

"""What the person left out: the newest connection, and the call that the provider's entry proves a credential with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.cli.trial import TrialFailed
from gateway.client import Client

# ``{cloudId}`` and ``${connectionConfig.cloudId}``: what the connection knows of itself.
_SETTING: Final = re.compile(r"\$?\{(?:connectionConfig\.)?([A-Za-z_][\w.-]*)\}")


@dataclass(frozen=True, slots=True)
class Named:
    """One connection, and a path on its provider's API."""

    integration: str
    connection: str
    path: str


def name(client: Client, integration: str | None, connection: str | None, path: str | None) -> Named:
    """All three, as given or as the gateway knows them. Raises GatewayError, and TrialFailed where there is no connection."""
    if integration is None or connection is None:
        integration, connection = _newest(client, integration)
    if path is None:
        path = _proof(client, integration)
    elif path.startswith(("https://", "http://")):
        path = _below_base(client, integration, path)
    named = Named(integration, connection, path)
    return replace(named, path=_filled(client, named)) if _SETTING.search(named.path) else named


def _newest(client: Client, integration: str | None) -> tuple[str, str]:
    known = [one["unique_key"] for one in client.list_integrations()]
    if integration is not None and integration not in known:
        return integration, "none"  # the call itself is refused, and the refusal explained
    filters = {} if integration is None else {"integrations": [integration]}
    for one in client.list_connections(**filters):  # type: ignore[arg-type]
        return one["provider_config_key"], one["connection_id"]
    of = f"integration '{integration}'" if integration else "this environment"
    if not known:
        raise TrialFailed("no integration is configured", "declare one in gateway.yaml, under environments")
    offered = [integration] if integration else known
    link = client.create_connect_session(end_user={"id": "gateway-try"}, allowed_integrations=offered)["connect_link"]
    raise TrialFailed(f"{of} has no connection yet", "open this to make one (good for 30 minutes):", link)


def _proof(client: Client, integration: str) -> str:
    """The entry's own proof of a credential, else the root."""
    proof: Mapping[str, Any] = _entry(client, integration).get("verification") or {}
    if proof.get("method", "GET") == "GET" and "base_url_override" not in proof:
        return str(next(iter(proof.get("endpoints", ())), "/"))
    return "/"


def _below_base(client: Client, integration: str, address: str) -> str:
    """An address out of the provider's own documentation, less the base that the gateway puts before it."""
    base = str(_entry(client, integration).get("base_url", ""))
    rest = address.removeprefix(base)
    if rest != address and rest[:1] in ("", "/", "?"):
        return rest or "/"
    raise TrialFailed(
        f"PATH is what stands behind the provider's base address, which is {base or 'unknown'} for '{integration}'",
        "another address that the entry or the integration allows: -H 'Base-Url-Override: https://…' and the path",
    )


def _entry(client: Client, integration: str) -> Mapping[str, Any]:
    """What the integration's provider says of its API; nothing where there is no such integration."""
    for one in client.list_integrations():
        if one["unique_key"] == integration:
            told: Mapping[str, Any] = client.get_provider(one["provider"])["proxy"]
            return told
    return {}


def _filled(client: Client, named: Named) -> str:
    config = client.get_connection(named.integration, named.connection)["connection_config"]

    def value(found: re.Match[str]) -> str:
        if found[1] not in config:
            known = ", ".join(sorted(config)) or "none"
            raise TrialFailed(f"the connection has no setting '{found[1]}' for {found[0]}; it has: {known}")
        return str(config[found[1]])

    return _SETTING.sub(value, named.path)

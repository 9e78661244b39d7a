"""Limits which members of a connection a minted key may set, because some members can send end users' data to another
place.

The limited members are the settings (a setting can choose the host), parameters of the authorization URL, scopes that
the integration does not request, the URL for events, and links on the connect page.

A key with the scope `environment:connections:configure` may set these members. But a key that is limited to connections
or tags can never change the settings of an existing connection.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from gateway.access.caller import Caller
from gateway.access.key_policy import Policy
from gateway.access.refusals import beyond_limits_error, field_scope_error
from gateway.access.scopes import CONFIGURE
from gateway.auth.context import AuthContext
from gateway.catalog.hosts import fixes_host
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.generation import Generation
from gateway.oauth.authorize import scope_list
from gateway.records.integration import Integration


def check_fixed_values(
    generation: Generation, caller: Caller, fixed: Mapping[str, Any], *, reconnects: bool = False
) -> None:
    """Check that the caller's key may set `fixed`: the `defaults`, `overrides` and `webhook_url_override` of a connect
    session. `reconnects`: whether the session is for an existing connection. Raises Forbidden, InvalidRequest."""
    policy, environment = caller.policy, caller.environment
    for key, override in fixed["overrides"].items():
        if url := override.get("docs_connect"):
            _require_configure(policy, f"overrides.{key}.docs_connect")
            integration = generation.integrations.find(environment.name, key)
            if caller.key is not None and integration is not None:
                _check_help_page(generation, caller, integration, url)
    check_webhook(policy, fixed["webhook_url_override"])
    for key, default in fixed["defaults"].items():
        integration = generation.integrations.find(environment.name, key)
        member = next(_fixed_members(generation, integration, default), None)
        if member is None:
            continue
        if reconnects and policy.limits_connections:
            raise beyond_limits_error("it cannot change the settings of an existing connection")
        _require_configure(policy, f"integrations_config_defaults.{key}.{member}")


def check_webhook(policy: Policy, url: str | None) -> None:
    """Raise Forbidden if `url` is not None and the key may not set the URL for events and webhooks."""
    if url is not None:
        _require_configure(policy, "webhook_url_override")


def _require_configure(policy: Policy, field: str) -> None:
    if not policy.allows(CONFIGURE):
        raise field_scope_error(CONFIGURE, field)


def _fixed_members(
    generation: Generation, integration: Integration | None, defaults: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the names of the limited members that `defaults` fixes. Scopes that the integration requests anyway are not
    limited."""
    if defaults.get("authorization_params"):
        yield "authorization_params"
    provider = generation.catalog.get(integration.provider) if integration is not None else None
    default_scopes = (
        set(AuthContext(provider, integration).scopes) if provider is not None and integration is not None else set()
    )
    if not default_scopes.issuperset(scope_list(defaults.get("user_scopes") or "")):
        yield "user_scopes"
    config = dict(defaults.get("connection_config") or {})
    if not default_scopes.issuperset(scope_list(config.pop("oauth_scopes_override", None) or "")):
        yield "connection_config.oauth_scopes_override"
    if config:
        yield f"connection_config.{next(iter(config))}"


def _check_help_page(generation: Generation, caller: Caller, integration: Integration, url: str) -> None:
    """Raise InvalidRequest unless `url` is a page of the provider, the application or the gateway: people follow this
    link from the page on which they enter credentials."""
    provider = generation.catalog.get(integration.provider)
    host = (urlsplit(url).hostname or "").lower()
    environment_config = generation.config.environments.get(caller.environment.name)
    own_origins = [generation.public_url, *(environment_config.connect_origins if environment_config else ())]
    known_hosts = sorted(
        {
            known_host
            for page in (*own_origins, *_provider_pages(provider))
            if (known_host := (urlsplit(page).hostname or "").lower())
        }
    )
    if host in known_hosts or (provider is not None and fixes_host(provider, "https", host, urlsplit(url).port or 443)):
        return
    message = (
        f"docs_connect is a page of {host}. A minted key may only name pages of the provider or of your application: "
        f"{', '.join(known_hosts)}."
    )
    path = ("overrides", integration.integration_id, "docs_connect")
    raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, path)])


def _provider_pages(provider: Provider | None) -> Iterator[str]:
    if provider is not None:
        yield from filter(None, (provider.docs, provider.docs_connect, provider.homepage, provider.setup_guide_url))

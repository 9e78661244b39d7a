"""What a connect session offers to the end user: names, logos, and scopes in plain words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gateway.auth import modes
from gateway.auth.context import AuthContext
from gateway.auth.mode import GrantingMode
from gateway.catalog.provider import Provider
from gateway.generation import Generation
from gateway.oauth.authorize import scope_list
from gateway.pages.frame import PageWords
from gateway.records.connecting import ConnectSession
from gateway.records.integration import Integration
from gateway.runtime import Runtime

# ── Scopes in plain words, derived from their names: ``write:jira-work`` becomes "Create and change jira work".

VERB_TEXTS: Final = {
    "read": "scope_read", "readonly": "scope_read", "view": "scope_read", "list": "scope_read", "get": "scope_read",
    "write": "scope_write", "readwrite": "scope_write", "edit": "scope_write", "create": "scope_write",
    "update": "scope_write", "send": "scope_write", "modify": "scope_write", "post": "scope_write",
    "delete": "scope_delete", "remove": "scope_delete",
    "manage": "scope_manage", "admin": "scope_manage", "full": "scope_manage",
}  # fmt: skip
SCOPE_TEXTS: Final = {
    "offline_access": "scope_offline", "offline": "scope_offline", "refresh_token": "scope_offline",
    "openid": "scope_identity", "read:me": "scope_identity",
    "email": "scope_email", "profile": "scope_profile",
}  # fmt: skip
MAX_SCOPE_CHARS: Final = 80
_SEPARATORS: Final = re.compile(r"[\s:/._-]+")


def describe_scope(scope: str, words: PageWords) -> str:
    """Return a sentence that describes the scope. A scope without a known verb is named in the sentence."""
    if scope in SCOPE_TEXTS:
        return words(SCOPE_TEXTS[scope])
    # The meaning of a scope that is a URL is in its path: https://www.googleapis.com/auth/calendar.readonly
    short_scope = re.sub(r"^https?://[^/]+/(auth/)?", "", scope)[:MAX_SCOPE_CHARS] or scope[:MAX_SCOPE_CHARS]
    parts = [part for part in _SEPARATORS.split(short_scope) if part]
    verb = next((part for part in (*parts[:1], *parts[-1:]) if part.lower() in VERB_TEXTS), None)
    if verb is None:
        return words("scope_other", subject=" ".join(parts) or scope)
    parts.remove(verb)
    return words(VERB_TEXTS[verb.lower()], subject=" ".join(parts)) if parts else words("scope_other", subject=scope)


def describe_scopes(scopes: Sequence[str], words: PageWords) -> list[tuple[str, tuple[str, ...]]]:
    """Return the sentences for `scopes` in the order of the scopes, each sentence with the scopes that it describes."""
    scopes_by_sentence: dict[str, list[str]] = {}
    for scope in scopes:
        scopes_by_sentence.setdefault(describe_scope(scope, words), []).append(scope)
    return [(sentence, tuple(names)) for sentence, names in scopes_by_sentence.items()]


@dataclass(frozen=True, slots=True)
class Offer:
    """An integration that the connect page offers.

    - `url`: the URL of the integration's form
    - `oauth`: whether the end user authorizes at the provider
    - `instruction`: what the end user does, in a few words
    - `host`: the host where the end user signs in, or the provider's name if the host is not known
    - `connected`: whether this session has already connected the integration
    """

    key: str
    name: str
    logo: str
    url: str
    provider: Provider
    integration: Integration = field(repr=False)
    oauth: bool
    host: str
    instruction: str
    connected: bool = False


def offered_integrations(generation: Generation, session: ConnectSession) -> list[Integration]:
    """Return the integrations that the session allows, in the session's order.

    If the session has no list, return all integrations of the environment. An integration is left out if its provider
    is no longer in the catalog: such an integration cannot be connected, and must not make the page fail.
    """
    available = [
        integration
        for integration in generation.integrations.list_in(session.environment)
        if generation.catalog.get(integration.provider)
    ]
    if not session.allowed_integrations:
        return available
    by_key = {integration.integration_id: integration for integration in available}
    return [by_key[key] for key in dict.fromkeys(session.allowed_integrations) if key in by_key]


def make_offer(
    runtime: Runtime, generation: Generation, integration: Integration, start_url: str, words: PageWords
) -> Offer:
    """Return the offer of an integration. `start_url`: the URL of the session's first page."""
    provider = runtime.creator.provider_of(integration)
    public_url = generation.public_url
    oauth = isinstance(modes()[provider.auth_mode], GrantingMode)
    host = urlsplit(provider.authorization_url or "").hostname or provider.display_name
    if "${" in host or "{" in host:
        host = provider.display_name
    name = integration.display_name or provider.display_name
    text_keys = {"NONE": "uses_none", "API_KEY": "field_apiKey"}
    instruction = words("sign_in" if oauth else text_keys.get(provider.auth_mode, "uses_key"))
    path, _, query = start_url.partition("?")
    return Offer(
        key=integration.integration_id,
        name=name,
        logo=generation.catalog.provider_json(provider.name, public_url)["logo_url"],
        url=f"{path}/i/{quote(integration.integration_id, safe='')}" + (f"?{query}" if query else ""),
        provider=provider,
        integration=integration,
        oauth=oauth,
        host=host,
        instruction=instruction,
    )


def matching_offers(offers: list[Offer], search: str) -> list[Offer]:
    """Return the offers whose name, provider or categories contain every word of `search`."""
    search_words = search.casefold().split()
    return [offer for offer in offers if all(word in _search_text(offer) for word in search_words)]


def _search_text(offer: Offer) -> str:
    return " ".join((offer.name, offer.provider.display_name, offer.key, *offer.provider.categories)).casefold()


def access_texts(
    session: ConnectSession,
    offer: Offer,
    app: str,
    words: PageWords,
    user_scope: str | None = None,
    reconnect_scopes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return what the application will be able to do, in sentences: ``{"list": [(sentence, scopes)], "sentence": …}``.

    `user_scope`: further scopes from the URL that the browser opened; ignored if the session sets such scopes.
    `reconnect_scopes`: the scopes that a reconnect requests instead of the integration's scopes; None: no reconnect.
    """
    if offer.provider.auth_mode == "NONE":
        return {"list": [], "sentence": words("granted_none", app=app)}
    if not offer.oauth:
        text_key = "granted_key" if offer.provider.auth_mode == "API_KEY" else "granted_typed"
        return {"list": [], "sentence": words(text_key, app=app, name=offer.name)}
    defaults = session.defaults.get(offer.key, {})
    fixed = (defaults.get("connection_config") or {}).get("oauth_scopes_override")
    scopes = scope_list(fixed) if fixed else reconnect_scopes or AuthContext(offer.provider, offer.integration).scopes
    texts = describe_scopes([*scopes, *scope_list(defaults.get("user_scopes") or user_scope or "")], words)
    return {"list": texts, "sentence": None if texts else words("granted_unnamed", name=offer.name)}

"""The authorization of one end user at one provider: out to its consent page, back to our callback, once (RFC 6749 §4.1).

`state` is 256 random bits, stored as a digest, good for one use and ten minutes, and bound by a cookie to the browser
that began (RFC 9700 §4.7). What the callback needs (token address, PKCE verifier, settings) is pinned in the stored
flow, so nothing of it can be swapped on the way (RFC 9700 §4.4).
"""

import asyncio
import re
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.connections.create import Creator
from gateway.connections.integrations import Integrations
from gateway.connections.ready import filled
from gateway.connections.settings import accepted, by_browser, complete
from gateway.connections.tokens import TokenEndpoint, client_of, params
from gateway.errors import Forbidden, InvalidRequest
from gateway.oauth import pkce
from gateway.oauth.authorize import authorization_url, issuer_accepted
from gateway.oauth.token import TokenRefused, TokenUnavailable, dig
from gateway.records.connecting import ConnectSession, Flow, NewFlow
from gateway.records.connection import Connection, EndUser
from gateway.records.integration import Integration
from gateway.secret import Secret, digest
from gateway.store import Store

LIFETIME: Final = timedelta(minutes=10)
MAX_WORDS: Final = 500
NEITHER: Final = (
    "The provider sent neither a code nor an error back. Start again from the application; if it happens again, ask "
    "whoever runs it for help."
)
PROTOCOL: Final = frozenset(
    {
        "response_type",
        "response_mode",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
        "request",
        "request_uri",
    }
)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the browser goes next, and the cookie that shows on return that it is the same browser."""

    url: str
    cookie_name: str
    cookie_value: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the browser, or the page it came from, may choose about a flow."""

    config: Mapping[str, str] = field(default_factory=dict)
    authorization_params: Mapping[str, str] = field(default_factory=dict)
    user_scope: str | None = None


class CallbackFailed(InvalidRequest):
    """An authorization that led to nothing; knows what it was for, as far as that is safe to tell."""

    integration_id: str | None = None


class Flows:
    """Begins and ends authorizations. `public_url` is the only source of our own address."""

    def __init__(
        self, store: Store, integrations: Integrations, creator: Creator, tokens: TokenEndpoint, public_url: str
    ) -> None:
        self._store = store
        self._integrations = integrations
        self._creator = creator
        self._tokens = tokens
        self.redirect_uri: Final = f"{public_url}/oauth/callback"
        self._redeeming: set[asyncio.Task[Connection]] = set()
        self._cookie_prefix = "__Host-gw-flow-" if public_url.startswith("https://") else "gw-flow-"

    async def begin(self, session: ConnectSession, integration_id: str, asked: Asked) -> Departure:
        """Raises NotFound, Forbidden where the session does not offer this integration, InvalidRequest on its settings."""
        integration = self._integrations.get(session.environment, integration_id)
        check_offered(session, integration_id)
        provider = self._creator.provider_of(integration)
        if provider.auth_mode != "OAUTH2":
            raise InvalidRequest(
                "invalid_auth_mode",
                f"'{integration_id}' does not use OAuth but {provider.auth_mode}; its connections are imported with "
                "POST /connections.",
            )
        defaults = session.defaults.get(integration_id, {})
        own = dict(defaults.get("connection_config") or {})
        scopes_override = own.pop("oauth_scopes_override", None)
        typed = by_browser(provider, accepted(provider, asked.config, ("params",)))
        # Merged under the entry's spelling of the names, so that no other spelling gets past what the back end fixed.
        config = {**typed, **accepted(provider, own, ("connection_config",))}
        complete(provider, config, ("params",))
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        verifier = None if provider.disable_pkce else pkce.new_verifier()
        address = filled(provider, provider.authorization_url or "", config)
        extra = params(provider, provider.authorization_params, integration, config)
        for name, value in {
            **chosen(asked.authorization_params),
            **(defaults.get("authorization_params") or {}),
        }.items():
            if value == "undefined":  # how published clients take a parameter of the entry away
                extra.pop(name, None)
            else:
                extra[name] = value
        if user_scope := defaults.get("user_scopes") or asked.user_scope:
            extra["user_scope"] = user_scope
        flow = NewFlow(
            state_digest=digest(state),
            browser_digest=digest(browser),
            environment=session.environment,
            integration_id=integration_id,
            connection_id=session.connection_id or str(uuid.uuid4()),
            session_digest=session.digest,
            expires_at=clock.now() + LIFETIME,
            details={
                "provider": provider.name,
                "address": address,
                "token_url": filled(provider, provider.token_url or "", config),
                "code_verifier": verifier,
                "config": config,
                "end_user": asdict(session.end_user) if session.end_user else None,
                "tags": dict(session.tags),
                "webhook_url_override": session.webhook_url_override,
            },
        )
        await self._store.flows.add(flow)
        url = authorization_url(
            provider,
            address,
            client_id=client_of(integration, None).client_id,
            redirect_uri=self.redirect_uri,
            scopes=scope_list(scopes_override) if scopes_override else scopes_of(integration, provider),
            state=state,
            code_challenge=pkce.challenge(verifier) if verifier else None,
            params=extra,
        )
        return Departure(url, self.cookie_name(state), Secret(browser))

    def cookie_name(self, state: str) -> str:
        """One cookie a flow, so that two windows of a browser can authorize side by side."""
        return self._cookie_prefix + str(int(digest(state)[:12], 16))

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Connection:
        """The new connection. Raises CallbackFailed with words for the end user; a state that is not this browser's
        stays unused, so that whoever it belongs to can still finish.
        """
        flow, integration, provider, details = await self._flow_of(query, cookies)
        # In a task of its own: the state is spent, so a browser that leaves now must not throw the grant away.
        redeeming = asyncio.create_task(self._redeem(integration, provider, flow.connection_id, details, query))
        self._redeeming.add(redeeming)
        redeeming.add_done_callback(self._redeemed)
        try:
            return await asyncio.shield(redeeming)
        except InvalidRequest as fault:
            raise _about(flow, fault) from fault

    def take_over(self, former: "Flows") -> None:
        """At the end, wait for what is being finished there too."""
        self._redeeming = former._redeeming

    async def close(self, within_s: float = 15) -> None:
        """Let authorizations that are being finished end."""
        if self._redeeming:
            await asyncio.wait(set(self._redeeming), timeout=within_s)

    def _redeemed(self, task: "asyncio.Task[Connection]") -> None:
        self._redeeming.discard(task)
        if not task.cancelled():
            task.exception()  # told to the browser, or to nobody if it has left

    async def _flow_of(
        self, query: Mapping[str, str], cookies: Mapping[str, str]
    ) -> tuple[Flow, Integration, Provider, Mapping[str, Any]]:
        state = query.get("state", "")
        if not state:
            raise CallbackFailed("invalid_state", "The provider sent no state back. Start again from the application.")
        flow = await self._store.flows.get(digest(state), now=clock.now())
        if flow is None:
            raise CallbackFailed(
                "invalid_state",
                "This authorization is unknown, was used already, or is older than ten minutes. Start again.",
            )
        if Secret(digest(cookies.get(self.cookie_name(state), ""))) != Secret(flow.browser_digest):
            raise CallbackFailed(
                "invalid_state",
                "This authorization was begun in another browser, or this one refuses cookies. Open the link where "
                "you began, or start again here.",
            )
        if "code" not in query and "error" not in query:
            raise _about(flow, InvalidRequest("invalid_state", NEITHER))
        mine = await self._store.flows.consume(flow.state_digest, now=clock.now())
        if mine is None:
            raise _about(flow, InvalidRequest("invalid_state", "This authorization was used already. Start again."))
        integration = self._integrations.get(flow.environment, flow.integration_id)
        provider = self._creator.provider_of(integration)
        details = self._store.open(mine.details)
        if provider.name != details["provider"]:
            changed = f"Integration '{flow.integration_id}' was changed while you authorized. Start again."
            raise _about(flow, InvalidRequest("invalid_state", changed))
        return flow, integration, provider, details

    async def _redeem(
        self,
        integration: Integration,
        provider: Provider,
        connection_id: str,
        details: Mapping[str, Any],
        query: Mapping[str, str],
    ) -> Connection:
        if not issuer_accepted(provider, details["address"], query.get("iss")):
            raise InvalidRequest(
                "invalid_issuer",
                f"The answer names another issuer than {provider.display_name} has. It was not used. Start again.",
            )
        if "error" in query:
            raise InvalidRequest("authorization_refused", _provider_words(provider, query))
        config: dict[str, Any] = dict(details["config"])
        try:
            held = await self._tokens.redeem(
                integration,
                provider,
                config,
                token_url=details["token_url"],
                code=query["code"],
                redirect_uri=self.redirect_uri,
                code_verifier=details["code_verifier"],
            )
        except (TokenRefused, TokenUnavailable) as fault:
            raise InvalidRequest(
                "token_request_failed",
                f"{provider.display_name} did not exchange the code for a token: {_short(str(fault))}. Start again; if "
                "it happens again, the integration's client ID, client secret or callback address is wrong.",
            ) from fault
        connection, _ = await self._creator.create(
            integration,
            held,
            connection_id=connection_id,
            config={**_told(provider, held["raw"], query), **config},
            path=("params",),
            tags=details["tags"] or None,
            end_user=EndUser(**details["end_user"]) if details["end_user"] else None,
            webhook_url_override=details["webhook_url_override"],
        )
        return connection


def scopes_of(integration: Integration, provider: Provider) -> tuple[str, ...]:
    """The integration's scopes exactly; the entry's default ones only where it names none."""
    return integration.scopes if integration.scopes is not None else tuple(provider.default_scopes or ())


def scope_list(override: str | Sequence[str]) -> tuple[str, ...]:
    """The scopes of ``oauth_scopes_override``: a list, or a text with commas or blanks between them."""
    return tuple(filter(None, re.split(r"[,\s]+", override))) if isinstance(override, str) else tuple(override)


def chosen(authorization_params: Mapping[str, str]) -> dict[str, str]:
    """What a browser may add to the request: nothing that the protocol, or the integration's scopes, decide."""
    return {name: value for name, value in authorization_params.items() if name.lower() not in PROTOCOL}


def check_offered(session: ConnectSession, integration_id: str) -> None:
    """Raises Forbidden where the session was made for other integrations."""
    if session.allowed_integrations and integration_id not in session.allowed_integrations:
        raise Forbidden(
            "integration_not_allowed",
            f"This connect session does not offer '{integration_id}', only {', '.join(session.allowed_integrations)}.",
        )


def _told(provider: Provider, answer: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, str]:
    """Settings that the entry wants kept from the token answer and from the callback's query."""
    told = {path: dig(answer, path) for path in provider.token_response_metadata or ()}
    told |= {name: query.get(name) for name in provider.redirect_uri_metadata or ()}
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in told.items()
        if isinstance(value, str | bool) and value != ""
    }


def _provider_words(provider: Provider, query: Mapping[str, str]) -> str:
    words = ": ".join(_short(query[name]) for name in ("error", "error_description") if query.get(name))
    return f"{provider.display_name} did not grant access: {words}. Nothing was changed; start again to allow it."


def _short(words: str) -> str:
    """A provider's words, made fit to stand in a sentence: bounded, one line, printable, without a full stop."""
    return "".join(char if char.isprintable() else " " for char in words[:MAX_WORDS]).rstrip(" .")


def _about(flow: Flow, fault: InvalidRequest) -> CallbackFailed:
    failed = CallbackFailed(fault.code, fault.message, errors=fault.errors, payload=fault.payload)
    failed.integration_id = flow.integration_id
    return failed

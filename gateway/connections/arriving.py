"""The end of an authorization: the browser is back from the provider, its grant becomes a connection, all who wait hear of it.

Where the grant reaches several sites and the integration asks, the end user chooses first: the grant waits sealed, in a
flow of its own that the same browser can use once within ten minutes.
"""

import asyncio
import secrets
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import Context
from gateway.auth.mode import Granted, GrantingMode
from gateway.auth.words import short
from gateway.catalog.provider import Provider
from gateway.connections.create import Creator, SiteWanted
from gateway.connections.dialogues import Dialogues
from gateway.connections.flow_faults import CallbackFailed, about, error_type
from gateway.connections.integrations import Integrations
from gateway.connections.outcomes import Outcomes
from gateway.connections.unmade import tell_failure
from gateway.errors import GatewayError, InvalidRequest, NotFound
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.connecting import Flow, NewFlow, Outcome
from gateway.records.connection import Connection, EndUser
from gateway.scripts.context import Site
from gateway.secret import Secret, digest
from gateway.store import Store

LIFETIME: Final = timedelta(minutes=10)
STATES: Final = ("state", "payload", "customField")  # how providers call it that have no OAuth `state`
NEITHER: Final = (
    "The provider sent neither a code nor an error back. Start again from the application; if it happens again, ask "
    "whoever runs it for help."
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The end user is to choose a site. `token` goes into the page's form, the cookie shows that it is the same browser."""

    token: str
    sites: tuple[Site, ...]
    provider: Provider
    integration_id: str
    session_digest: str
    cookie_name: str
    cookie_value: Secret
    lang: str | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A connection that was just made, and whose session it was."""

    connection: Connection
    session_digest: str
    lang: str | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """A flow that its own browser has come back to, used up by that."""

    flow: Flow
    mode: GrantingMode
    context: Context
    details: Mapping[str, Any] = field(repr=False)


class Arrivals:
    """`public_url` is the only source of our own address."""

    def __init__(
        self,
        store: Store,
        integrations: Integrations,
        creator: Creator,
        dialogues: Dialogues,
        outcomes: Outcomes,
        public_url: str,
    ) -> None:
        self._store = store
        self._integrations = integrations
        self._creator = creator
        self._dialogues = dialogues
        self._outcomes = outcomes
        self._public_url = public_url
        self._redeeming: set[asyncio.Task[Arrived | Choice]] = set()
        self._cookie_prefix = "__Host-gw-flow-" if public_url.startswith("https://") else "gw-flow-"

    def cookie_name(self, state: str) -> str:
        """One cookie a flow, so that two windows of a browser can authorize side by side."""
        return self._cookie_prefix + str(int(digest(state)[:12], 16))

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Arrived | Choice:
        """The new connection. Raises CallbackFailed with words for the end user; a state that is not this browser's
        stays unused, so that whoever it belongs to can still finish.
        """
        returned = await self._returned(query, cookies)
        return await self._to_its_end(returned.flow, returned.details, self._redeem(returned, query))

    async def choose(self, token: str, site_id: str, cookies: Mapping[str, str]) -> Arrived | Choice:
        """The connection with the site that was chosen. Raises CallbackFailed; a site that was not offered uses nothing up."""
        flow = await self._store.flows.get(digest(token), now=clock.now()) if token else None
        if flow is None:
            raise CallbackFailed(
                "invalid_state", "This choice was made already, or is older than ten minutes. Start again."
            )
        self._check_browser(flow, token, cookies)
        details = self._store.open(flow.details)
        site = next((one for one in details.get("sites", ()) if one["id"] == site_id), None)
        if site is None:
            raise about(flow, InvalidRequest("invalid_state", "Choose one of the sites that are shown."))
        try:
            _, mode, context = self._for(flow, details)
        except (CallbackFailed, NotFound) as fault:
            await self._tell_failure(flow, details, fault)
            raise
        if await self._store.flows.consume(flow.state_digest, now=clock.now()) is None:
            raise about(flow, InvalidRequest("invalid_state", "This choice was made already. Start again."))
        granted = Granted(details["held"], details["told"])
        config = {name: text for name, text in details["config"].items() if name not in site["settings"]}
        given = [*details.get("given", ()), *site["settings"]]
        chosen = {**details, "config": {**config, **site["settings"]}, "given": given}
        returned = Returned(flow, mode, context, chosen)
        return await self._to_its_end(flow, details, self._created(returned, granted))

    def take_over(self, former: "Arrivals") -> None:
        """At the end, wait for what is being finished there too."""
        self._redeeming = former._redeeming

    async def close(self, within_s: float = 15) -> None:
        """Let authorizations that are being finished end."""
        if self._redeeming:
            await asyncio.wait(set(self._redeeming), timeout=within_s)

    async def _to_its_end(
        self, flow: Flow, details: Mapping[str, Any], work: Coroutine[Any, Any, Arrived | Choice]
    ) -> Arrived | Choice:
        # In a task of its own: the state is spent, so a browser that leaves now must not throw the grant away.
        redeeming = asyncio.create_task(self._told(flow, details, work))
        self._redeeming.add(redeeming)
        redeeming.add_done_callback(self._redeemed)
        try:
            return await asyncio.shield(redeeming)
        except InvalidRequest as fault:
            raise about(flow, fault) from fault

    def _redeemed(self, task: "asyncio.Task[Arrived | Choice]") -> None:
        self._redeeming.discard(task)
        if not task.cancelled():
            task.exception()  # told to the browser, or to nobody if it has left

    async def _told(
        self, flow: Flow, details: Mapping[str, Any], work: Coroutine[Any, Any, Arrived | Choice]
    ) -> Arrived | Choice:
        """What comes of `work`, told to those who wait for it before it is told to the browser."""
        try:
            came = await work
        except Exception as fault:
            await self._tell_failure(flow, details, fault)
            if isinstance(fault, GatewayError):
                await tell_failure(self._store, flow, details["provider"], details, fault)
            raise
        if isinstance(came, Arrived):
            await self._outcomes.tell(self._outcome(flow, details, connection_id=came.connection.ref.connection_id))
        return came

    async def _tell_failure(self, flow: Flow, details: Mapping[str, Any], fault: Exception) -> None:
        known = fault if isinstance(fault, GatewayError) else None
        outcome = self._outcome(
            flow,
            details,
            error_type=error_type(known) if known else "unknown_err",
            error_desc=known.message if known else "The gateway failed. Its log has the details.",
            code=known.code if known else "generic_error_support",
        )
        await self._outcomes.tell(outcome)

    @staticmethod
    def _outcome(flow: Flow, details: Mapping[str, Any], **what: Any) -> Outcome:
        return Outcome(
            environment=flow.environment,
            session_digest=flow.session_digest,
            integration_id=flow.integration_id,
            client_digest=details.get("client"),
            at=clock.now(),
            **what,
        )

    def _check_browser(self, flow: Flow, state: str, cookies: Mapping[str, str]) -> None:
        if Secret(digest(cookies.get(self.cookie_name(state), ""))) != Secret(flow.browser_digest):
            raise about(
                flow,
                InvalidRequest(
                    "invalid_state",
                    "This authorization was begun in another browser, or this one refuses cookies. Open the link where "
                    "you began, or start again here.",
                ),
                "state_cookie_err",
            )

    async def _returned(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Returned:
        state = state_in(query)
        if not state:
            raise CallbackFailed("invalid_state", "The provider sent no state back. Start again from the application.")
        flow = await self._store.flows.get(digest(state), now=clock.now())
        if flow is None:
            raise CallbackFailed(
                "invalid_state",
                "This authorization is unknown, was used already, or is older than ten minutes. Start again.",
            )
        details = self._store.open(flow.details)
        try:
            self._check_browser(flow, state, cookies)
            if "sites" in details:
                raise about(flow, InvalidRequest("invalid_state", "Choose a site on the page that asked you to."))
            _, mode, context = self._for(flow, details)
            if not mode.answered(context, query):
                raise about(flow, InvalidRequest("invalid_state", NEITHER), "callback_err")
            if await self._store.flows.consume(flow.state_digest, now=clock.now()) is None:
                raise about(flow, InvalidRequest("invalid_state", "This authorization was used already. Start again."))
        except (CallbackFailed, NotFound) as fault:
            await self._tell_failure(flow, details, fault)
            raise
        return Returned(flow, mode, context, details)

    def _for(self, flow: Flow, details: Mapping[str, Any]) -> tuple[Provider, GrantingMode, Context]:
        integration = self._integrations.get(flow.environment, flow.integration_id)
        provider = self._creator.provider_of(integration)
        mode = granting(provider, flow.integration_id)
        if (provider.name, mode.name) != (details["provider"], details["mode"]):
            changed = f"Integration '{flow.integration_id}' was changed while you authorized. Start again."
            raise about(flow, InvalidRequest("invalid_state", changed))
        return provider, mode, Context(provider, integration, details["config"], public_url=self._public_url)

    async def _redeem(self, returned: Returned, query: Mapping[str, str]) -> Arrived | Choice:
        return await self._created(returned, await self._granted(returned, query))

    async def _created(self, returned: Returned, granted: Granted) -> Arrived | Choice:
        flow, details = returned.flow, returned.details
        config = details["config"]
        given = {name: config[name] for name in details.get("given", config) if name in config}
        try:
            connection, _ = await self._creator.create(
                returned.context.integration,
                granted.held,
                connection_id=flow.connection_id,
                config={**config, **granted.config, **given},  # what it tells now before what it told when first made
                path=("params",),
                tags=details["tags"] or None,
                end_user=EndUser(**details["end_user"]) if details["end_user"] else None,
                webhook_url_override=details["webhook_url_override"],
                tested=False,
                reconnects=details.get("reconnects", False),
            )
        except SiteWanted as wanted:
            return await self._choice(returned, granted, wanted.sites)
        return Arrived(connection, flow.session_digest, details.get("lang"))

    async def _choice(self, returned: Returned, granted: Granted, sites: tuple[Site, ...]) -> Choice:
        token, browser, flow = secrets.token_urlsafe(32), secrets.token_urlsafe(32), returned.flow
        details = {
            **returned.details,
            "kept": {},
            "held": dict(granted.held),
            "told": dict(granted.config),
            "sites": [asdict(site) for site in sites],
        }
        await self._store.flows.add(
            NewFlow(
                state_digest=digest(token),
                browser_digest=digest(browser),
                environment=flow.environment,
                integration_id=flow.integration_id,
                connection_id=flow.connection_id,
                session_digest=flow.session_digest,
                expires_at=clock.now() + LIFETIME,
                details=details,
            )
        )
        provider, lang = returned.context.provider, returned.details.get("lang")
        name = self.cookie_name(token)
        return Choice(token, sites, provider, flow.integration_id, flow.session_digest, name, Secret(browser), lang)

    async def _granted(self, returned: Returned, query: Mapping[str, str]) -> Granted:
        try:
            return await self._dialogues.hold(returned.mode.arrive(returned.context, returned.details["kept"], query))
        except (TokenRefused, TokenUnavailable) as fault:
            name = returned.context.provider.display_name
            raise InvalidRequest(
                "token_request_failed",
                f"{name} did not exchange the code for a token: {short(str(fault))}. Start again; if "
                "it happens again, the integration's client ID, client secret or callback address is wrong.",
            ) from fault


def state_in(query: Mapping[str, str]) -> str:
    """What names the flow in a callback's query."""
    return next((query[name] for name in STATES if query.get(name)), "")


def granting(provider: Provider, integration_id: str) -> GrantingMode:
    mode = modes()[provider.auth_mode]
    if not isinstance(mode, GrantingMode):
        raise InvalidRequest(
            "invalid_auth_mode",
            f"'{integration_id}' does not use OAuth but {provider.auth_mode}; its connections are imported with "
            "POST /connections.",
        )
    return mode

"""The end of an authorization: the browser is back from the provider, its grant becomes a connection, all who wait hear of it.

Where the grant reaches several sites and the integration asks, the end user chooses first: the grant waits sealed, in a
flow of its own that the same browser can use once within ten minutes.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from multidict import MultiMapping

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import Context
from gateway.auth.mode import Granted, GrantingMode
from gateway.catalog.provider import Provider
from gateway.connections.arrived import Arrived, Back, Choice, Returned
from gateway.connections.create import Creator
from gateway.connections.dialogues import Dialogues
from gateway.connections.flow_faults import CallbackFailed, about
from gateway.connections.grants import Grants
from gateway.connections.integrations import Integrations
from gateway.connections.outcomes import Outcomes
from gateway.connections.session_connections import SessionConnections
from gateway.connections.telling import Telling
from gateway.errors import Forbidden, InvalidRequest, NotFound
from gateway.records.connecting import Flow
from gateway.secret import Secret, digest
from gateway.store import Store

STATES: Final = ("state", "payload", "customField")  # how providers call it that have no OAuth `state`
ONCE: Final = (*STATES, "code", "error", "iss")  # RFC 6749 §3.1: a parameter comes once
NEITHER: Final = (
    "The provider sent neither a code nor an error back. Start again from the application; if it happens again, ask "
    "whoever runs it for help."
)


class Arrivals:
    """`public_url` is the only source of our own address."""

    def __init__(
        self,
        store: Store,
        integrations: Integrations,
        creator: Creator,
        session_connections: SessionConnections,
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
        self._telling = Telling(store, outcomes)
        self._grants = Grants(store, creator, session_connections, dialogues, self.cookie_name)

    def cookie_name(self, state: str) -> str:
        """One cookie a flow, so that two windows of a browser can authorize side by side."""
        return self.cookie_of(digest(state))

    def cookie_of(self, state_digest: str) -> str:
        """The same, of the digest of its state."""
        return self._cookie_prefix + str(int(state_digest[:12], 16))

    async def finish(
        self, query: Mapping[str, str], cookies: Mapping[str, str], request_id: str = ""
    ) -> Arrived | Choice:
        """The new connection. Raises CallbackFailed with words for the end user; a state that is not this browser's
        stays unused, so that whoever it belongs to can still finish.
        """
        back = Back(request_id, query)
        returned = await self._returned(query, cookies, back)
        return await self._to_its_end(returned.flow, returned.details, self._grants.redeemed(returned, query), back)

    async def choose(
        self, token: str, site_id: str, cookies: Mapping[str, str], request_id: str = ""
    ) -> Arrived | Choice:
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
            await self._telling.failure(flow, details, fault, Back(request_id))
            raise
        if await self._store.flows.consume(flow.state_digest, now=clock.now()) is None:
            raise about(flow, InvalidRequest("invalid_state", "This choice was made already. Start again."))
        granted = Granted(details["held"], details["told"])
        config = {name: text for name, text in details["config"].items() if name not in site["settings"]}
        given = [*details.get("given", ()), *site["settings"]]
        chosen = {**details, "config": {**config, **site["settings"]}, "given": given}
        returned = Returned(flow, mode, context, chosen)
        return await self._to_its_end(flow, details, self._grants.connected(returned, granted), Back(request_id))

    def take_over(self, former: "Arrivals") -> None:
        """At the end, wait for what is being finished there too."""
        self._redeeming = former._redeeming

    async def close(self, within_s: float = 15) -> None:
        """Let authorizations that are being finished end."""
        if self._redeeming:
            await asyncio.wait(set(self._redeeming), timeout=within_s)

    async def _to_its_end(
        self, flow: Flow, details: Mapping[str, Any], work: Coroutine[Any, Any, Arrived | Choice], back: Back
    ) -> Arrived | Choice:
        # In a task of its own: the state is spent, so a browser that leaves now must not throw the grant away.
        redeeming = asyncio.create_task(self._telling.told(flow, details, work, back))
        self._redeeming.add(redeeming)
        redeeming.add_done_callback(self._redeemed)
        try:
            return await asyncio.shield(redeeming)
        except (InvalidRequest, Forbidden) as fault:
            raise about(flow, fault) from fault

    def _redeemed(self, task: "asyncio.Task[Arrived | Choice]") -> None:
        self._redeeming.discard(task)
        if not task.cancelled():
            task.exception()  # told to the browser, or to nobody if it has left

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

    async def _returned(self, query: Mapping[str, str], cookies: Mapping[str, str], back: Back) -> Returned:
        twice = next((name for name in ONCE if _count(query, name) > 1), None)
        if twice is not None:
            raise CallbackFailed("invalid_state", f"The provider sent '{twice}' more than once. Start again.")
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
                await self._store.flows.consume(flow.state_digest, now=clock.now())
                neither = about(flow, InvalidRequest("invalid_state", NEITHER), "callback_err")
                neither.spent = True
                raise neither
            if await self._store.flows.consume(flow.state_digest, now=clock.now()) is None:
                raise about(flow, InvalidRequest("invalid_state", "This authorization was used already. Start again."))
        except (CallbackFailed, NotFound) as fault:
            await self._telling.failure(flow, details, fault, back)
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


def _count(query: Mapping[str, str], name: str) -> int:
    return len(query.getall(name, ())) if isinstance(query, MultiMapping) else int(name in query)


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

"""Creates reconnect links. The error of a failed call contains such a link, with which an end user fixes the cause.

Each pair of key and connection has its own link. A link is a connect session for one integration and one connection ID.
The link ends as soon as that connection exists and works. However often calls fail, a new link is created only if the
old link has ended or is about to expire.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

import structlog

from gateway import clock
from gateway.access import refusals
from gateway.access.key_policy import Policy
from gateway.access.refusals import rule_and_fix, with_payload
from gateway.access.scopes import CONNECT
from gateway.authorization.connect_sessions import ConnectSessions, connect_link
from gateway.errors import GatewayError
from gateway.generation import CurrentGeneration
from gateway.oauth.error_codes import CLIENT_REFUSED
from gateway.records.connecting import ConnectSession
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.states import State
from gateway.store import Store
from gateway.timestamps import iso
from gateway.vault import VaultError

MAX_LINKS: Final = 10_000
MIN_LIFETIME_LEFT: Final = timedelta(minutes=10)  # a link that expires sooner is replaced
NEXT_STEP_WITHOUT_KEY: Final = "Give connect_url to the end user, and send the call again once they have connected."
NEXT_STEP: Final = "Give connect_url to the end user, request poll_url until it returns 200, then send the call again."


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReconnectLink:
    """A reconnect link. `until_granted`: if the connection works but lacks scopes, the time of its last authorization,
    else None. Such a link ends as soon as the end user authorizes after this time."""

    url: str = field(repr=False)
    session: ConnectSession
    until_granted: datetime | None = None


class ReconnectLinks:
    """Keeps one link for each key and connection. Two keys do not share a link, because anyone who has a link can end
    it.

    A minted key can get links. A key of gateway.yaml gets links only if its environment has `connect_links_in_errors`.
    If an environment requires a code challenge, the application must create each link itself, because only the
    application has the verifier.
    """

    def __init__(self, store: Store, sessions: ConnectSessions, current: CurrentGeneration) -> None:
        self._store = store
        self._sessions = sessions
        self._current = current
        self._links_by_key: dict[ConnectionRef, dict[str, ReconnectLink]] = {}
        self._creating: dict[tuple[ConnectionRef, str], asyncio.Task[ReconnectLink]] = {}
        self._ending_tasks: set[asyncio.Task[None]] = set()

    async def with_remedy(
        self, fault: GatewayError, policy: Policy, ref: ConnectionRef, *, key_id: str, pollable: bool = True
    ) -> GatewayError:
        """Return `fault` with the next step added. If an end user must authorize the connection, the next step is to
        open a link, unless the key may not get a link.

        A key of gateway.yaml gets links only if its environment enables links, because applications log error bodies. A
        minted key needs the scope for connecting. A key that is limited to tags gets no link for a missing connection,
        because a connection with this ID can exist with other tags. No link is created if the provider refuses the
        integration's own app, because no end user can correct that.

        `key_id`: the ID of the calling key, empty for a key of gateway.yaml. `pollable`: whether the caller used a key,
        which can also read the connection through the API. False if the caller used a capability URL.
        """
        is_missing = fault.code == "unknown_connection"
        if not is_missing and fault.code != "reconnect_needed":
            return fault
        if not policy.reaches(*ref[1:]) or (is_missing and policy.tags != {}):
            return fault
        step = refusals.CONNECT_STEP if is_missing else refusals.RECONNECT_STEP
        if self._refuses_app(fault, ref):
            check = f"Check client_id, client_secret and scopes of integration '{ref.integration_id}'."
            remedy = {"poll_url": self.poll_url(ref)} if pollable else {}
            remedy |= rule_and_fix("integration", check, "the gateway's operator")
            message = fault.message if policy.allows(CONNECT) else refusals.without_scope(fault.message)
            return with_payload(fault, remedy, message)
        if not policy.allows(CONNECT):
            fix = refusals.sentence(refusals.with_scope(step))
            remedy = rule_and_fix("connection", fix, "the application's back end")
            return with_payload(fault, remedy, refusals.without_scope(fault.message))
        environment = self._current.generation.config.environments.get(ref.environment)
        if environment is None:  # a reload has removed the environment
            return fault
        if environment.requires_binding:
            fix = refusals.sentence(refusals.with_challenge(step))
            remedy = {"poll_url": self.poll_url(ref)} if pollable else {}
            remedy |= rule_and_fix("connection", fix, "the application's back end")
            return with_payload(fault, remedy, refusals.with_code_challenge(fault.message))
        if not key_id and not environment.connect_links_in_errors:
            remedy = {"poll_url": self.poll_url(ref)} | rule_and_fix(
                "connection", refusals.sentence(step), "the end user"
            )
            return with_payload(fault, remedy)
        try:
            link = await self._link(ref, key_id, exists=not is_missing)
        except GatewayError as error:
            log.info("no_connect_url", connection_id=ref.connection_id, detail=error.message)
            return fault
        remedy = {"connect_url": link.url, "connect_url_expires_at": iso(link.session.expires_at)}
        if pollable:
            remedy["poll_url"] = self.poll_url(ref)
        fix = NEXT_STEP if pollable else NEXT_STEP_WITHOUT_KEY
        remedy |= rule_and_fix("connection", fix, "the end user whose connection it is")
        return with_payload(fault, remedy, refusals.with_link(fault.message, link.url))

    def _refuses_app(self, fault: GatewayError, ref: ConnectionRef) -> bool:
        """Return whether the provider refused the integration's app at the last refresh. Return False for an
        integration without an app. Each connection of such an integration registers its own client, and registers a new
        client when the end user authorizes again."""
        integration = self._current.generation.integrations.find(ref.environment, ref.integration_id)
        has_app = integration is not None and (integration.client_id or integration.app_id)
        return bool(has_app) and (fault.payload or {}).get("reason") in CLIENT_REFUSED

    async def scopes_link(self, policy: Policy, row: Connection, *, key_id: str) -> str | None:
        """Return a link for a connection that works but lacks scopes that the provider requires. Return None if the key
        may not get a link."""
        ref = row.ref
        environment = self._current.generation.config.environments.get(ref.environment)
        if environment is None or environment.requires_binding or not policy.allows(CONNECT):
            return None
        if not policy.reaches(*ref[1:]) or not (key_id or environment.connect_links_in_errors):
            return None
        try:
            return (await self._link(ref, key_id, exists=True, until_granted=row.granted_at or row.created_at)).url
        except GatewayError as error:
            log.info("no_connect_url", connection_id=ref.connection_id, detail=error.message)
            return None

    async def _link(
        self, ref: ConnectionRef, key_id: str, *, exists: bool, until_granted: datetime | None = None
    ) -> ReconnectLink:
        """Return the existing link of this key and connection, or create a new link. `exists`: whether the connection
        exists. A link is not reused if its session has ended, is about to expire, or was created when `exists` was
        different."""
        cached_link = self._links_by_key.get(ref, {}).get(key_id)
        if cached_link is not None and cached_link.session.expires_at - clock.now() >= MIN_LIFETIME_LEFT:
            if cached_link.session.reconnects == exists and await self._is_usable(cached_link.session):
                return cached_link
            if self._links_by_key.get(ref, {}).get(key_id) is cached_link:
                self._forget(ref, key_id)
                await self._sessions.end(cached_link.session)
        ref_and_key = ref, key_id
        task = self._creating.get(ref_and_key)
        if task is None:
            task = self._creating[ref_and_key] = asyncio.create_task(
                self._create(ref, key_id, exists=exists, until_granted=until_granted)
            )
            task.add_done_callback(
                lambda done: (self._creating.pop(ref_and_key, None), done.cancelled() or done.exception())
            )
        return await asyncio.shield(task)

    async def _is_usable(self, session: ConnectSession) -> bool:
        try:
            return await self._sessions.find_by_digest(session.digest) is not None
        except VaultError:  # the session is encrypted with a lost key, so the connect page cannot read it
            return False

    def poll_url(self, ref: ConnectionRef) -> str:
        """Return the URL that the key can poll for the connection's state. The response is 404 or 424 until the
        connection works, then 200."""
        quoted_ids = quote(ref.connection_id, safe=""), quote(ref.integration_id, safe="")
        return "{}/connections/{}?provider_config_key={}".format(self._current.generation.public_url, *quoted_ids)

    def handle_change(self, ref: ConnectionRef) -> None:
        """End the links of this connection if it works now. Called after the connection was written."""
        if ref in self._links_by_key:
            task = asyncio.create_task(self._end_if_working(ref))
            self._ending_tasks.add(task)
            task.add_done_callback(self._ending_tasks.discard)

    def handle_missed_changes(self) -> None:
        """Forget all links, because changes of their connections may have been missed. The next request creates a new
        link."""
        self._links_by_key.clear()

    async def close(self) -> None:
        tasks = [*self._ending_tasks, *self._creating.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _create(
        self, ref: ConnectionRef, key_id: str, *, exists: bool, until_granted: datetime | None
    ) -> ReconnectLink:
        """Create a link. `exists`: whether the connection exists. If the connection exists, its deletion also ends the
        link's session."""
        token, session = await self._sessions.open(
            ref.environment,
            key_id,
            allowed_integrations=(ref.integration_id,),
            connection_id=ref.connection_id,
            integration_id=ref.integration_id if exists else None,
            pinned=exists,
            for_provider_response=until_granted is not None,
        )
        while len(self._links_by_key) >= MAX_LINKS:
            del self._links_by_key[next(iter(self._links_by_key))]
        link = ReconnectLink(connect_link(self._current.generation.public_url, token), session, until_granted)
        self._links_by_key.setdefault(ref, {})[key_id] = link
        return link

    def _forget(self, ref: ConnectionRef, key_id: str) -> None:
        links = self._links_by_key.get(ref, {})
        links.pop(key_id, None)
        if not links:
            self._links_by_key.pop(ref, None)

    async def _end_if_working(self, ref: ConnectionRef) -> None:
        try:
            row = await self._store.connections.get(ref)
            if row is None or row.state is not State.ACTIVE:
                return
            for key_id, link in list(self._links_by_key.get(ref, {}).items()):
                if link.until_granted is None or (row.granted_at or row.created_at) > link.until_granted:
                    self._forget(ref, key_id)
                    await self._sessions.end(link.session)
        except GatewayError as fault:
            log.info("link_not_ended", detail=fault.message)

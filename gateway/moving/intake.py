"""Everything of one source, taken in: integrations first, then connections, a few at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from gateway.auth import modes
from gateway.errors import GatewayError
from gateway.moving.integrations import MadeOne, make_missing
from gateway.moving.landing import Landing, Wish
from gateway.moving.moved import Moved, Outcome, Result, Unusable
from gateway.moving.peer import Peer, PeerConnection, PeerIntegration
from gateway.moving.tables import Found
from gateway.moving.work import Pace, Tally, bounded, renewed
from gateway.records.connection import ConnectionRef
from gateway.services import Services


def _unheard(_done: int, _total: int) -> None: ...


@dataclass(kw_only=True)
class Intake:
    """`create_integrations`: those that are not here are made. `test_refresh`: each is renewed once after it was stored,
    at most `refresh_rate` a second. `step` hears how many are done, of how many; 0 where that is not known."""

    services: Services
    wish: Wish
    tally: Tally
    at_once: int = 8
    create_integrations: bool = False
    test_refresh: bool = False
    refresh_rate: float = 5.0
    step: Callable[[int, int], None] = _unheard
    made: list[MadeOne] = field(default_factory=list)
    total: int = 0

    def __post_init__(self) -> None:
        self._landing = Landing(self.services, self.wish)
        self._pace = Pace(self.refresh_rate)

    async def from_peer(self, peer: Peer, only: Sequence[str] = ()) -> None:
        """Raises SourceRefused."""
        if self.create_integrations:
            for integration in await peer.integrations(only):
                await self._integration(integration)
        listed = await peer.listed(only)
        self.total = len(listed)

        async def one(found: PeerConnection) -> None:
            settled = await self._landing.settled(self._landing.ref(found.integration_id, found.connection_id))
            if settled is not None:
                return self._note(settled)
            try:
                moved = await peer.connection(found)
            except Unusable as fault:
                return self._note(self._here(fault.outcome))
            await self._land(moved)
            return None

        await bounded(listed, one, at_once=self.at_once)

    async def from_lines(self, found: Iterable[Found], only: Sequence[str] = ()) -> None:
        """`found`: a bundle's, or those of a file. Raises SourceRefused."""

        async def one(item: Found) -> None:
            if isinstance(item, Moved):
                await self._land(item)
            elif isinstance(item, PeerIntegration):
                await self._integration(item)
            else:
                self._note(self._here(item.outcome))

        wanted = (item for item in found if isinstance(item, Unusable) or not only or item.integration_id in only)
        await bounded(await self._after_integrations(iter(wanted)), one, at_once=self.at_once)

    async def _after_integrations(self, found: Iterator[Found]) -> Iterable[Found]:
        """The rest, once those that stand first are made: their connections need them."""
        for item in found:
            if not isinstance(item, PeerIntegration):
                return chain([item], found)
            await self._integration(item)
        return ()

    async def _integration(self, one: PeerIntegration) -> None:
        if not self.create_integrations:
            return
        key = self.wish.named.get(one.integration_id, one.integration_id)
        made = await make_missing(self.services, self.wish.environment, key, one, dry_run=self.wish.dry_run)
        if made.made or made.fault:
            self.made.append(made)
        if made.planned is not None:
            self._landing.planned[key] = made.planned

    async def _land(self, moved: Moved) -> None:
        outcome = await self._landing.land(moved)
        if self.test_refresh and outcome.result in (Result.IMPORTED, Result.REPLACED) and not self.wish.dry_run:
            outcome = await self._tested(outcome)
        self._note(outcome)

    async def _tested(self, outcome: Outcome) -> Outcome:
        ref = ConnectionRef(self.wish.environment, outcome.integration_id, outcome.connection_id)
        await self._pace.turn()
        came, why = await renewed(self.services, ref)
        return replace(outcome, renewed=f"{came}: {why}" if why else came)

    def _here(self, outcome: Outcome) -> Outcome:
        key = self.wish.named.get(outcome.integration_id, outcome.integration_id)
        return replace(outcome, integration_id=key)

    def _note(self, outcome: Outcome) -> None:
        self.tally.note(outcome)
        self.step(self.tally.done, self.total)


def rotating(services: Services, environment: str) -> list[str]:
    """Keys of the integrations whose providers end a refresh token when it is used."""
    found = []
    for one in services.integrations.of(environment):
        try:
            provider = services.creator.provider_of(one)
        except GatewayError:
            continue
        if provider.auth_mode in modes() and provider.refresh is not None and provider.refresh.rotating:
            found.append(one.integration_id)
    return found

"""The rehearsal itself: connect, call, refresh, page and, where the entry has them, verification and revocation."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import ClientError

from gateway.catalog.places import Place
from gateway.catalog.provider import Provider
from gateway.records.call import scrubbed
from gateway.sandbox.rehearsal.actor import CALL, LIST, Actor, Sockets, acting
from gateway.sandbox.rehearsal.answers import PAGE
from gateway.sandbox.rehearsal.checks import Check, header_fields
from gateway.sandbox.rehearsal.connecting import (
    authorization_checks,
    by_browser,
    imported,
    integration_of,
    is_redirecting,
    typed_in,
)
from gateway.sandbox.rehearsal.gateway import NAME, Refused, running
from gateway.sandbox.rehearsal.knowledge import Knowledge
from gateway.sandbox.rehearsal.outcomes import paged, placed, revoked, unproved
from gateway.sandbox.rehearsal.samples import samples_for
from gateway.sandbox.rehearsal.stage import Stage
from gateway.sandbox.rehearsal.tokens import refresh_checks, token_checks

RENEWED: Final = frozenset(
    {"OAUTH2", "OAUTH2_CC", "TWO_STEP", "BILL", "APP", "CUSTOM", "MCP_OAUTH2", "MCP_OAUTH2_GENERIC"}
)
AGAIN: Final = {
    "JWT": "its token is signed here anew, and nothing is asked of the provider",
    "SIGNATURE": "its token is made here anew, and nothing is asked of the provider",
}


@dataclass(slots=True)
class Step:
    """`sent`: what reached the provider, masked, a list of lines a request; `skipped`: why there was nothing to do."""

    name: str
    sent: list[list[str]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    skipped: str | None = None


@dataclass(slots=True)
class Rehearsed:
    """`origins`: the provider's ▸ where they were played; `unproved`: what a rehearsal cannot show."""

    steps: list[Step]
    origins: Mapping[str, str]
    unproved: list[str]

    @property
    def ok(self) -> bool:
        return all(check.ok for step in self.steps for check in step.checks)


async def rehearse(provider: Provider, given: Mapping[str, str]) -> Rehearsed:
    """Play all steps of `provider`; `given` are values of settings and credentials to take. Raises NoSample, Faults."""
    samples = samples_for(provider, given)
    sockets = Sockets()
    addresses = sockets.addresses()
    stage = Stage(provider, addresses)
    entry = stage.entry()
    local = next(iter(stage.origins.values()))
    actor = Actor(stage, entry)
    with tempfile.TemporaryDirectory(prefix="gateway-rehearsal-") as folder:
        integration = integration_of(provider, samples, local)
        async with acting(actor, sockets), running(Path(folder), entry, integration) as gateway:
            play = _Play(gateway, actor, samples, entry)
            await play.all()
    known = {**samples.typed, **{f"credentials.{name}": value for name, value in samples.typed.items()}}
    return Rehearsed(play.steps, stage.shown_origins(samples.config, known), unproved(provider))


@dataclass(slots=True)
class _Play(Knowledge):
    steps: list[Step] = field(default_factory=list)

    async def all(self) -> None:
        for name in ("connect", "verification", "call", "refresh", "page", "revocation"):
            step = Step(name)
            self.steps.append(step)
            mark = len(self.actor.arrivals)
            try:
                await getattr(self, f"_{name}")(step, mark)
            except (Refused, ClientError, TimeoutError) as wrong:
                step.checks.append(
                    Check(f"{name} works", False, self.place_of(step.name, mark), str(wrong) or "no answer in time")
                )
            step.sent = [one.shown(self.secrets()) for one in self.actor.since(mark)]
            known = tuple(self.secrets())
            step.checks = [
                replace(one, what=scrubbed(one.what, known), detail=scrubbed(one.detail, known)) for one in step.checks
            ]
            if name == "connect" and not all(check.ok for check in step.checks) and not self.shown:
                return  # there is nothing to go on with

    async def _connect(self, step: Step, mark: int) -> None:
        self.config = dict(self.samples.config)
        sent_to = ""
        if is_redirecting(self.provider):
            self.connection_id, sent_to = await by_browser(self.gateway, self.actor, self.samples)
        else:
            await typed_in(self.gateway, self.provider, self.samples, self.connection_id)
        await self.look()
        known = self.known()
        if sent_to:
            step.checks += authorization_checks(sent_to, self.provider, known, self.samples, self.gateway, self.entry)
        came = self.token_requests(mark)
        if self.provider.auth_mode in RENEWED:
            callback = f"{self.gateway.url}/oauth/callback"
            step.checks += token_checks(came, known, self.samples, callback)
        for name in (*(self.provider.token_response_metadata or ()), *(self.provider.redirect_uri_metadata or ())):
            where = (
                "token_response_metadata"
                if name in (self.provider.token_response_metadata or ())
                else "redirect_uri_metadata"
            )
            step.checks.append(Check(f"{name} is kept as a setting", name in self.config, (where,), "it is not"))
        step.checks.append(Check("the connection is stored", bool(self.shown), ("auth_mode",)))

    async def _verification(self, step: Step, _: int) -> None:
        spec = self.provider.proxy.verification
        if spec is None:
            step.skipped = "the entry has no proxy.verification"
            return
        mark = 0
        if is_redirecting(self.provider):  # a grant that was just made needs no proof, one that is imported does
            mark = len(self.actor.arrivals)
            await imported(self.gateway, self.provider, self.shown)
        known = self.known()
        came = [one for one in self.actor.since(mark) if one.role == "proxy" and one.method == spec.method]
        paths = [known.path(f"http://host{endpoint}") for endpoint in spec.endpoints]
        fitting = [one for one in came if any(path and one.path.endswith(path.partition("?")[0]) for path in paths)]
        place: Place = ("proxy", "verification")
        step.checks.append(
            Check(
                f"{spec.method} {spec.endpoints[0]} was called when the connection was made",
                bool(fitting),
                place,
                "it was not",
            )
        )
        if fitting:
            step.sent = [fitting[0].shown(self.secrets())]
            step.checks += header_fields(fitting[0], spec.headers, known, (*place, "headers"))
        if is_redirecting(self.provider):
            return
        self.actor.refusing = True
        try:
            await typed_in(self.gateway, self.provider, self.samples, "refused")
            step.checks.append(Check("wrong credentials are refused at once", False, place, "they were taken"))
        except Refused as refused:
            ok = "connection_test_failed" in str(refused)
            step.checks.append(Check("wrong credentials are refused at once", ok, place, str(refused)))
        finally:
            self.actor.refusing = False

    async def _call(self, step: Step, mark: int) -> None:
        await self._called(step, mark)

    async def _called(self, step: Step, mark: int) -> None:
        status, text = await self.gateway.proxied(self.connection_id, CALL)
        came = self.actor.since(mark, "proxy")
        if status != 200 or not came:
            raise Refused(f"GET /proxy{CALL} answered {status}: {text[:300]}")
        step.checks += placed(came[-1], self.known(), self.samples, self.entry, self.shown)

    async def _refresh(self, step: Step, mark: int) -> None:
        mode = self.provider.auth_mode
        if mode not in RENEWED:
            step.skipped = AGAIN.get(mode, f"a credential of {mode} does not end, so there is nothing to renew")
            return
        before, refresh_token = self.actor.access_token, self.shown.get("credentials", {}).get("refresh_token", "")
        refresh_token = refresh_token or (self.actor.refresh_tokens[-1] if self.actor.refresh_tokens else "")
        self.shown = await self.gateway.connection(self.connection_id, force_refresh=True)
        came = self.token_requests(mark)
        if not came:
            place: Place = ("refresh_url",) if self.provider.refresh_url else ("token_url",)
            step.checks.append(Check("a new token was asked for", False, place, "no request came"))
            return
        step.checks += refresh_checks(came[0], self.known(), self.samples, refresh_token)
        step.checks.append(
            Check("a new token came", self.actor.access_token != before, ("token_response",), "it is the old one")
        )
        await self._called(step, len(self.actor.arrivals))

    async def _page(self, step: Step, mark: int) -> None:
        way = self.provider.proxy.paginate
        if way is None:
            step.skipped = "the entry has no proxy.paginate"
            return
        limit = f"; limit={PAGE}" if way.limit_name_in_request else ""
        status, text = await self.gateway.proxied(self.connection_id, LIST, **{"Gateway-Paginate": f"all{limit}"})
        came = [one for one in self.actor.since(mark, "proxy") if one.path.endswith(LIST)]
        step.checks += paged(way, status, text, came)

    async def _revocation(self, step: Step, mark: int) -> None:
        if self.provider.revocation_url is None:
            step.skipped = "the entry has no revocation_url"
            return
        path = f"/connections/{quote(self.connection_id, safe='')}?provider_config_key={NAME}"
        told = await self.gateway.json("DELETE", path)
        came = self.actor.since(mark, "revocation_url")
        tokens = {*self.actor.tokens, *self.actor.refresh_tokens}
        step.checks += revoked(self.provider, told.get("revocation", ()), came, tokens)

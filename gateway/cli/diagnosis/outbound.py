"""Whether the gateway may and can dial what an integration needs, as it would itself: DNS, the guard, TLS."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway import clock
from gateway.catalog.address import parse_address
from gateway.catalog.template import TemplateError
from gateway.cli.diagnosis.clocks import skew_s
from gateway.cli.diagnosis.finding import Finding, ok
from gateway.cli.diagnosis.patient import ANSWER_S, Declared, Patient
from gateway.egress.errors import EgressError

FIELDS: Final = ("token_url", "refresh_url", "revocation_url", "proxy.base_url")


@dataclass(frozen=True, slots=True)
class Origin:
    """`field`: what the origin is needed for, first of all."""

    url: str
    field: str


async def outbound(patient: Patient) -> AsyncIterator[Finding]:
    """One request without a credential, ``HEAD /``, to each origin that is no template; at the same time to all."""
    asked: dict[str, asyncio.Task[str | EgressError]] = {}
    async with asyncio.TaskGroup() as group:
        for one in patient.integrations:
            for origin in origins(one):
                if origin.url not in asked:
                    asked[origin.url] = group.create_task(_head(patient, origin.url))
        for environment in patient.config.environments.values():
            if environment.webhook_url is not None and environment.webhook_url not in asked:
                asked[environment.webhook_url] = group.create_task(_head(patient, _origin_of(environment.webhook_url)))
    for one in patient.integrations:
        told = [(origin, asked[origin.url].result()) for origin in origins(one)]
        bad = [_refused(patient, one, origin, said) for origin, said in told if isinstance(said, EgressError)]
        for finding in bad:
            yield finding
        if told and not bad:
            hosts = ", ".join(dict.fromkeys(urlsplit(origin.url).netloc for origin, _ in told))
            yield ok("provider", f"{hosts} can be reached", integration=one.name)
    for environment in patient.config.environments.values():
        if environment.webhook_url is not None:
            said = asked[environment.webhook_url].result()
            yield _of_webhook(patient, environment.name, environment.webhook_url, said)


def origins(one: Declared) -> Iterator[Origin]:
    """Those that the entry spells out; what end users fill in cannot be tried without one."""
    provider, seen = one.provider, set()
    for field in FIELDS:
        template = provider.proxy.base_url if field == "proxy.base_url" else getattr(provider, field, None)
        if not isinstance(template, str):
            continue
        try:
            address = parse_address(template)
        except TemplateError:
            continue
        if address.whole is None and all(isinstance(piece, str) for piece in (*address.host, address.port or "")):
            port = f":{address.port}" if address.port else ""
            url = f"{address.scheme}://{''.join(map(str, address.host))}{port}"
            if url not in seen:
                seen.add(url)
                yield Origin(url, field)


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


async def _head(patient: Patient, origin: str) -> str | EgressError:
    """The status, whatever it is: any answer shows that the way is open."""
    began = clock.now()
    try:
        answer = await patient.egress.fetch("HEAD", f"{origin}/", timeout_s=ANSWER_S)
    except EgressError as fault:
        return fault
    date = answer.headers.get("Date")
    skew = skew_s(date, began, clock.now()) if date else None
    if skew is not None:
        patient.skews_s.append((urlsplit(origin).netloc, skew))
    return str(answer.status)


def _refused(patient: Patient, one: Declared, origin: Origin, fault: EgressError) -> Finding:
    if fault.kind == "refused":
        fix = "if that address is meant, open it under egress.allow; if not, correct the entry or DNS"
        return Finding(
            "fail", "egress", f"{origin.field}: {fault.message}", patient.where("egress", "allow"), fix, one.name
        )
    shipped = patient.catalog.where(one.provider.name, *origin.field.split("."))
    where = patient.where(*one.place, "provider")
    fix = f"check DNS, the firewall and egress.proxy of this machine, and the address in {shipped}"
    return Finding("fail", "provider", f"{origin.field}: {fault.message}", where, fix, one.name)


def _of_webhook(patient: Patient, environment: str, url: str, said: str | EgressError) -> Finding:
    host = urlsplit(url).hostname
    if isinstance(said, EgressError):
        where = patient.where("environments", environment, "webhook_url")
        return Finding(
            "fail", "webhook", said.message, where, "correct webhook_url, or open its address in egress.allow"
        )
    return ok("webhook", f"{host} of environment {environment} can be reached")

"""Checks of the network: clocks, providers, the public URL, and a gateway that runs on this machine."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from gateway import clock
from gateway.api.health import INSTANCE_HEADER
from gateway.catalog.template import TemplateError
from gateway.catalog.url_template import parse_url_template
from gateway.cli.doctor.findings import (
    RESPONSE_TIMEOUT_S,
    DeclaredIntegration,
    DoctorFinding,
    ExaminedGateway,
    Level,
    ok,
)
from gateway.cli.doctor.machine_checks import JOURNAL, RISK
from gateway.cli.terminal import configuration_option, program
from gateway.config.exposed import SQLITE
from gateway.egress.egress_errors import EgressError
from gateway.origin import local_url
from gateway.store.sqlite.file_preflight import sqlite_path
from gateway.text import connect_failure, counted
from gateway.vault import Keyring, instance_id_of

# ── This machine's clock, compared with the Date header of responses (RFC 9110 §6.6.1), which has whole seconds.

MAX_SKEW_S: Final = 5.0
# If the difference is larger, token endpoints refuse the gateway's signatures, and tokens expire unnoticed.
FAILING_SKEW_S: Final = 60.0


def skew_s(date: str, sent_at: datetime, responded_at: datetime) -> float | None:
    """Return by how many seconds this machine's clock is ahead of the server's clock, whose time is `date`.

    Return 0.0 if the difference can come from the duration of the exchange, and None if `date` cannot be parsed.
    `sent_at`, `responded_at`: when the request was sent and when the response arrived, by this machine's clock.
    """
    try:
        server_time = parsedate_to_datetime(date)
        earliest_s, latest_s = (sent_at - server_time).total_seconds() - 1, (responded_at - server_time).total_seconds()
    except (ValueError, TypeError):
        return None
    return 0.0 if earliest_s <= 0 <= latest_s else (earliest_s if earliest_s > 0 else latest_s)


def check_clocks(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    """Compare this machine's clock with the median of the clocks of the providers and the public URL.

    The application that receives events is left out: it often runs on this machine and has the same clock, or its own
    clock is wrong.
    """
    if not examined.skews_s:
        return
    skew = median(seconds for _, seconds in examined.skews_s)
    names = ", ".join(sorted({name for name, _ in examined.skews_s}))
    if abs(skew) <= MAX_SKEW_S:
        yield ok("clock", f"this machine's clock agrees with {names}")
        return
    level: Level = "fail" if abs(skew) > FAILING_SKEW_S else "warn"
    direction = "ahead of" if skew > 0 else "behind"
    yield DoctorFinding(
        level,
        "clock",
        f"this machine's clock is {abs(skew):.0f} s {direction} {names}; tokens are refreshed at the wrong time, and "
        "signatures refused",
        "this machine",
        "synchronize it: timedatectl set-ntp true, or chrony",
    )


# ── Providers: whether the gateway can connect to the servers that an integration needs. DNS, egress rules or TLS can
# prevent a connection.

URL_FIELDS: Final = ("token_url", "refresh_url", "revocation_url", "proxy.base_url")


@dataclass(frozen=True, slots=True)
class Origin:
    """An origin that an integration calls. `field`: the first field of the entry that needs this origin."""

    url: str
    field: str


async def check_outbound(examined: ExaminedGateway) -> AsyncIterator[DoctorFinding]:
    """Send ``HEAD /`` without a credential to each origin that the integrations need, and report the results.

    The receivers of events get such a request too. All requests are sent at the same time.
    """
    tasks: dict[str, asyncio.Task[str | EgressError]] = {}
    async with asyncio.TaskGroup() as group:
        for integration in examined.integrations:
            for origin in origins(integration):
                if origin.url not in tasks:
                    tasks[origin.url] = group.create_task(_request_head(examined, origin.url))
        for environment in examined.config.environments.values():
            if environment.webhook_url is not None and environment.webhook_url not in tasks:
                receiver = _request_head(examined, _origin_of(environment.webhook_url), has_clock=False)
                tasks[environment.webhook_url] = group.create_task(receiver)
    for integration in examined.integrations:
        results = [(origin, tasks[origin.url].result()) for origin in origins(integration)]
        unreachable = [
            _unreachable_finding(examined, integration, origin, outcome)
            for origin, outcome in results
            if isinstance(outcome, EgressError)
        ]
        for finding in unreachable:
            yield finding
        if results and not unreachable:
            hosts = ", ".join(dict.fromkeys(urlsplit(origin.url).netloc for origin, _ in results))
            yield ok("provider", f"{hosts} can be reached", integration=integration.name)
    for environment in examined.config.environments.values():
        if environment.webhook_url is not None:
            result = tasks[environment.webhook_url].result()
            yield _webhook_finding(examined, environment.name, environment.webhook_url, result)


def origins(integration: DeclaredIntegration) -> Iterator[Origin]:
    """Yield the origins of the entry. An origin with a part that end users fill in is skipped."""
    provider, seen_origins = integration.provider, set()
    for field in URL_FIELDS:
        template = provider.proxy.base_url if field == "proxy.base_url" else getattr(provider, field, None)
        if not isinstance(template, str):
            continue
        try:
            url_template = parse_url_template(template)
        except TemplateError:
            continue
        if url_template.whole_base_url is None and all(
            isinstance(piece, str) for piece in (*url_template.host, url_template.port or "")
        ):
            port = f":{url_template.port}" if url_template.port else ""
            origin = f"{url_template.scheme}://{''.join(map(str, url_template.host))}{port}"
            if origin not in seen_origins:
                seen_origins.add(origin)
                yield Origin(origin, field)


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


async def _request_head(examined: ExaminedGateway, origin: str, *, has_clock: bool = True) -> str | EgressError:
    """Send ``HEAD /``. Return the response's status, or the error if no response arrives.

    Any status shows that the origin can be reached.
    `has_clock`: compare this machine's clock with the Date header of the response.
    """
    began_at = clock.now()
    try:
        response = await examined.egress.fetch("HEAD", f"{origin}/", timeout_s=RESPONSE_TIMEOUT_S)
    except EgressError as fault:
        return fault
    date = response.headers.get("Date")
    skew = skew_s(date, began_at, clock.now()) if date and has_clock else None
    if skew is not None:
        examined.skews_s.append((urlsplit(origin).netloc, skew))
    return str(response.status)


def _unreachable_finding(
    examined: ExaminedGateway, integration: DeclaredIntegration, origin: Origin, fault: EgressError
) -> DoctorFinding:
    if fault.kind == "refused":
        fix = "if that IP address is correct, add it to egress.allow; if not, correct the entry or DNS"
        return DoctorFinding(
            "fail",
            "egress",
            f"{origin.field}: {fault.message}",
            examined.file_and_line("egress", "allow"),
            fix,
            integration.name,
        )
    entry_location = examined.catalog.file_and_line(integration.provider.name, *origin.field.split("."))
    location = examined.file_and_line(*integration.place, "provider")
    fix = f"check DNS, the firewall and egress.proxy of this machine, and the URL in {entry_location}"
    return DoctorFinding("fail", "provider", f"{origin.field}: {fault.message}", location, fix, integration.name)


WEBHOOK_FIX: Final = {
    "unreachable": "start the receiver, or correct webhook_url",
    "timeout": "start the receiver and open its firewall, or correct webhook_url",
    "tls": "correct the receiver's certificate, or webhook_url",
    "refused": "add its IP address to egress.allow, or correct webhook_url",
}


def _webhook_finding(examined: ExaminedGateway, environment: str, url: str, result: str | EgressError) -> DoctorFinding:
    host = urlsplit(url).hostname
    if isinstance(result, EgressError):
        location = examined.file_and_line("environments", environment, "webhook_url")
        return DoctorFinding(
            "fail", "webhook", result.message, location, WEBHOOK_FIX.get(result.kind, "correct webhook_url")
        )
    return ok("webhook", f"{host} of environment {environment} can be reached")


# ── The public URL: whether requests to it reach this gateway. Checks the DNS name, the certificate, and the server
# that responds.

HEALTHY_BODY: Final = {"result": "ok"}


@dataclass(frozen=True, slots=True)
class HealthResponse:
    """The result of ``GET /health``.

    `is_gateway`: a gateway responded.
    `is_another_gateway`: the gateway that responded has other encryption keys than the configuration.
    `problem`: what the server does wrong, such as ``responds with a redirect``; empty if a gateway responded.
    `is_refused`: the connection was refused.
    """

    is_gateway: bool = False
    is_another_gateway: bool = False
    problem: str = ""
    is_refused: bool = False


async def check_inbound(examined: ExaminedGateway) -> AsyncIterator[DoctorFinding]:
    """Check the local listener and the public URL, with requests from this machine.

    These requests cannot find problems between this machine and the internet.
    """
    server = examined.config.server
    local = local_url(server.host, server.port)
    local_health, public_health = await asyncio.gather(_health(examined, local), _health(examined, server.public_url))
    if local_health.is_another_gateway:
        yield DoctorFinding(
            "fail",
            "gateway",
            f"another gateway listens on {local}: its encryption keys are not those of {examined.config.path}",
            examined.file_and_line("server", "port"),
            "stop it (press Ctrl-C in `gateway demo` or `make run`), or set another server.port",
        )
    elif local_health.is_gateway:
        yield ok("gateway", f"it runs, and responds on {local}")
    elif local_health.is_refused:
        yield ok("gateway", f"it does not run on this machine: nothing listens on {local}")
    else:
        yield DoctorFinding(
            "warn",
            "gateway",
            f"another server listens on {local}: it {local_health.problem}",
            examined.file_and_line("server", "port"),
            "stop it, or set another server.port",
        )
    yield _public_url_finding(examined, local_health, public_health)


def _public_url_finding(examined: ExaminedGateway, local: HealthResponse, public: HealthResponse) -> DoctorFinding:
    url, location = examined.config.server.public_url, examined.file_and_line("server", "public_url")
    if public.is_another_gateway:
        fix = "correct server.public_url or the reverse proxy, or stop the other gateway"
        problem = "its encryption keys are not those of this configuration"
        return DoctorFinding("fail", "public URL", f"{url} reaches another gateway: {problem}", location, fix)
    if public.is_gateway:
        return ok("public URL", f"{url} reaches a gateway")
    is_loopback_url = urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    if not local.is_gateway and (public.is_refused or is_loopback_url):
        start_hint = f"start `{program()} serve{configuration_option(examined.config.path)}`, then run doctor again"
        return DoctorFinding(
            "warn", "public URL", f"{url} cannot be checked while no gateway runs here", location, start_hint
        )
    proxy_hint = (
        ""
        if local.is_gateway
        else " (no gateway runs here; if one runs elsewhere, its reverse proxy does not forward to it)"
    )
    fix = "correct server.public_url, or DNS, certificate, load balancer or firewall; if this network cannot reach its own "
    fix += "public IP address, run doctor from elsewhere"
    return DoctorFinding(
        "fail", "public URL", f"{url} does not reach a gateway: it {public.problem}{proxy_hint}", location, fix
    )


async def _health(examined: ExaminedGateway, base: str) -> HealthResponse:
    """Request ``GET /health`` and return the result. Errors are returned as results, and not raised."""
    began_at = clock.now()
    try:
        async with examined.http.get(f"{base}/health", allow_redirects=False) as response:
            date = response.headers.get("Date")
            if date is not None and base.startswith("https:"):
                skew = skew_s(date, began_at, clock.now())
                examined.skews_s += [(urlsplit(base).netloc, skew)] if skew is not None else []
            if 300 <= response.status < 400:
                redirect_host = urlsplit(response.headers.get("Location", "")).netloc
                return HealthResponse(
                    problem=f"responds with a redirect{f' to {redirect_host}' if redirect_host else ''}"
                )
            body = None
            with contextlib.suppress(ValueError, aiohttp.ClientError):
                body = await response.json(content_type=None)
            if response.status == 200 and body == HEALTHY_BODY:
                instance_id = response.headers.get(INSTANCE_HEADER)
                own_instances = {instance_id_of(id_) for id_ in Keyring(examined.config.store.encryption_keys).ids}
                return HealthResponse(
                    is_gateway=True, is_another_gateway=instance_id is not None and instance_id not in own_instances
                )
            return HealthResponse(problem=f"responds to GET /health with {response.status}, and not as a gateway does")
    except aiohttp.ClientConnectorDNSError:
        return HealthResponse(problem="has a host name that DNS cannot resolve")
    except aiohttp.ClientConnectorCertificateError as fault:
        return HealthResponse(
            problem=f"has a certificate that is not trusted: {_certificate_text(fault.certificate_error)}"
        )
    except aiohttp.ClientConnectorSSLError:
        return HealthResponse(problem="does not support TLS 1.2 or newer")
    except aiohttp.ClientConnectorError as fault:
        return HealthResponse(problem=f"accepts no connection ({connect_failure(fault.os_error)})", is_refused=True)
    except TimeoutError:
        return HealthResponse(problem=f"does not respond within {RESPONSE_TIMEOUT_S:g} s")
    except (aiohttp.ClientError, OSError) as fault:
        return HealthResponse(problem=f"does not respond in HTTP ({type(fault).__name__})")


def _certificate_text(fault: Exception) -> str:
    return (
        fault.verify_message
        if isinstance(fault, ssl.SSLCertVerificationError)
        else "it is not valid for this host name"
    )


# ── What a gateway on this machine reports about itself: it might lack permissions that this command has.

REJECTED_METRIC: Final = re.compile(
    r'^gateway_rejected_credentials_total\{environment="([^"]*)",integration="([^"]*)",state="needs_reauth"\} ([0-9]+)',
    re.MULTILINE,
)
UNREADABLE_METRIC: Final = re.compile(r"^gateway_stored_secrets_unreadable_total\{[^}]*\} ([0-9]+)", re.MULTILINE)


async def check_running(examined: ExaminedGateway) -> AsyncIterator[DoctorFinding]:
    """Yield findings from ``/ready`` of the running gateway, and from its metrics if `server.admin_port` is set."""
    server, text, reported_health = examined.config.server, "", {}
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
        async with examined.http.get(f"{local_url(server.host, server.port)}/ready") as response:
            body = await response.json()
            reported_health = body if isinstance(body, dict) else {}
    if server.admin_port:
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with examined.http.get(f"{local_url(server.metrics_host, server.admin_port)}/metrics") as response:
                text = await response.text()
    location = examined.file_and_line("store", "url")
    if reported_health.get("store") == "away":
        yield _lost_store_finding(examined, location)
    if reported_health.get("journal") == "unwritable":
        detail = f"{RISK}: the running gateway cannot write the refresh journal"
        yield DoctorFinding("warn", JOURNAL, detail, location, "see refresh_journal_unwritable in its log")
    if failed_calls := sum(map(int, UNREADABLE_METRIC.findall(text))):
        detail = (
            f"stored secrets were changed or damaged: {counted(failed_calls, 'call')} of the running gateway failed for "
            "this reason"
        )
        fix = "see stored_secret_unreadable in its log; run `gateway restore`, or let these end users authorize again"
        yield DoctorFinding("fail", "store", detail, location, fix)
    for environment, integration, credential_count in REJECTED_METRIC.findall(text):
        if not int(credential_count):
            continue
        credentials_text = counted(int(credential_count), "credential")
        detail = f"the provider's API rejected {credentials_text} on every call since the gateway started"
        fix = "find them with `gateway connections list` (needs_reauth), then see `gateway connections why ID`"
        place = examined.file_and_line("environments", environment, "integrations", integration)
        yield DoctorFinding("warn", "credentials", detail, place, fix, f"{environment}/{integration}")


def _lost_store_finding(examined: ExaminedGateway, location: str) -> DoctorFinding:
    url = examined.config.store.url
    if not url.startswith(SQLITE):
        detail, fix = "the running gateway does not reach its database", "see store_unavailable in its log"
        return DoctorFinding("fail", "store", detail, location, fix)
    path = sqlite_path(url)
    detail = f"the running gateway has lost its database: {path} was "
    if path.exists():
        detail, fix = f"{detail}replaced by another file", "restart the gateway"
    else:
        detail, fix = f"{detail}moved or removed", "put it back, or stop the gateway and run `gateway restore`"
    return DoctorFinding("fail", "store", detail, location, fix)

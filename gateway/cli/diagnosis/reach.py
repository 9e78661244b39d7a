"""Whether the public URL leads here: the name, the certificate, and who answers."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from gateway import clock
from gateway.api.health import INSTANCE
from gateway.cli.diagnosis.clocks import skew_s
from gateway.cli.diagnosis.finding import Finding, ok
from gateway.cli.diagnosis.patient import ANSWER_S, Patient
from gateway.cli.program import program
from gateway.vault import Keyring, instance
from gateway.wording import unconnected

ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (what it is told, not where it listens)
OURS: Final = {"result": "ok"}


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of ``GET /health``: `ours` where a gateway has answered, else `trouble` in words.

    `another`: it is a gateway with other encryption keys than those of the configuration.
    """

    ours: bool = False
    another: bool = False
    trouble: str = ""
    nobody: bool = False


def local_url(listens_on: str, port: int) -> str:
    """The address of a listener of this machine."""
    host = ANYWHERE.get(listens_on, listens_on)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def reach(patient: Patient) -> AsyncIterator[Finding]:
    """Of the local listener and of the public URL. From this machine: what lies between it and the world is not seen."""
    server = patient.config.server
    local = local_url(server.host, server.port)
    here, there = await asyncio.gather(_ask(patient, local), _ask(patient, server.public_url))
    if here.another:
        yield Finding(
            "fail",
            "gateway",
            f"another gateway listens on {local}: its encryption keys are not those of {patient.config.path}",
            patient.where("server", "port"),
            "stop it (`gateway demo` and `make run` end with Ctrl-C), or set another server.port",
        )
    elif here.ours:
        yield ok("gateway", f"it runs, and answers on {local}")
    elif here.nobody:
        yield ok("gateway", f"it does not run on this machine: nothing listens on {local}")
    else:
        yield Finding(
            "warn",
            "gateway",
            f"something else listens on {local}: it {here.trouble}",
            patient.where("server", "port"),
            "stop that, or set another server.port",
        )
    yield _of_public(patient, here, there)


def _of_public(patient: Patient, here: Heard, there: Heard) -> Finding:
    url, where = patient.config.server.public_url, patient.where("server", "public_url")
    if there.another:
        fix = "correct server.public_url, or what stands before the gateway, or stop the other gateway"
        what = "its encryption keys are not those of this configuration"
        return Finding("fail", "public URL", f"{url} leads to another gateway: {what}", where, fix)
    if there.ours:
        return ok("public URL", f"{url} leads to a gateway")
    loopback = urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    if not here.ours and (there.nobody or loopback):
        start = f"start `{program()} serve`, then ask again"
        return Finding("warn", "public URL", f"{url} cannot be tried while no gateway runs here", where, start)
    behind = (
        "" if here.ours else " (no gateway runs here; if one runs elsewhere, what stands before it does not lead there)"
    )
    fix = "correct server.public_url, or what stands before the gateway: DNS, certificate, load balancer, firewall; where "
    fix += "a network lets nobody reach its own public address from inside, ask from elsewhere"
    return Finding("fail", "public URL", f"{url} does not lead to a gateway: it {there.trouble}{behind}", where, fix)


async def _ask(patient: Patient, base: str) -> Heard:
    """Never raises."""
    began = clock.now()
    try:
        async with patient.http.get(f"{base}/health", allow_redirects=False) as answer:
            date = answer.headers.get("Date")
            if date is not None and base.startswith("https:"):
                skew = skew_s(date, began, clock.now())
                patient.skews_s += [(urlsplit(base).netloc, skew)] if skew is not None else []
            if 300 <= answer.status < 400:
                to = urlsplit(answer.headers.get("Location", "")).netloc
                return Heard(trouble=f"answers with a redirect{f' to {to}' if to else ''}")
            body = None
            with contextlib.suppress(ValueError, aiohttp.ClientError):
                body = await answer.json(content_type=None)
            if answer.status == 200 and body == OURS:
                shown = answer.headers.get(INSTANCE)
                known = {instance(one) for one in Keyring(patient.config.store.encryption_keys).ids}
                return Heard(ours=True, another=shown is not None and shown not in known)
            return Heard(trouble=f"answers {answer.status} to GET /health, and not as a gateway does")
    except aiohttp.ClientConnectorDNSError:
        return Heard(trouble="has a name that leads nowhere in DNS")
    except aiohttp.ClientConnectorCertificateError as fault:
        return Heard(trouble=f"shows a certificate that is not trusted: {_of_certificate(fault.certificate_error)}")
    except aiohttp.ClientConnectorSSLError:
        return Heard(trouble="does not speak TLS as we do (1.2 or newer)")
    except aiohttp.ClientConnectorError as fault:
        return Heard(trouble=f"takes no connection ({unconnected(fault.os_error)})", nobody=True)
    except TimeoutError:
        return Heard(trouble=f"does not answer within {ANSWER_S:g} s")
    except (aiohttp.ClientError, OSError) as fault:
        return Heard(trouble=f"does not answer in HTTP ({type(fault).__name__})")


def _of_certificate(fault: Exception) -> str:
    return fault.verify_message if isinstance(fault, ssl.SSLCertVerificationError) else "it does not hold for this name"

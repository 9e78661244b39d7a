"""What a gateway that runs on this machine says of itself: its service may be forbidden what a shell is allowed."""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from gateway.cli.diagnosis.finding import Finding
from gateway.cli.diagnosis.journal import AT_STAKE, CHECK
from gateway.cli.diagnosis.patient import Patient
from gateway.cli.diagnosis.reach import local_url
from gateway.wording import counted

REJECTED: Final = re.compile(
    r'^gateway_rejected_credentials_total\{environment="([^"]*)",integration="([^"]*)",state="needs_reauth"\} ([0-9]+)',
    re.MULTILINE,
)
UNREADABLE: Final = re.compile(r"^gateway_stored_secrets_unreadable_total\{[^}]*\} ([0-9]+)", re.MULTILINE)


async def running(patient: Patient) -> AsyncIterator[Finding]:
    """Nothing where none runs; of its metrics nothing without `server.admin_port`."""
    server, text, journal = patient.config.server, "", None
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
        async with patient.http.get(f"{local_url(server.host, server.port)}/ready") as answer:
            journal = (await answer.json()).get("journal")
    if server.admin_port:
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with patient.http.get(f"{local_url(server.metrics_host, server.admin_port)}/metrics") as answer:
                text = await answer.text()
    where = patient.where("store", "url")
    if journal == "unwritable":
        detail = f"{AT_STAKE}: the gateway that runs here cannot write the refresh journal"
        yield Finding("warn", CHECK, detail, where, "its log says why: refresh_journal_unwritable")
    if times := sum(map(int, UNREADABLE.findall(text))):
        detail = f"stored secrets were changed or damaged: {counted(times, 'call')} of the gateway that runs here failed by that"
        fix = "look for stored_secret_unreadable in its log; gateway restore, or let those end users authorize again"
        yield Finding("fail", "store", detail, where, fix)
    for environment, integration, times in REJECTED.findall(text):
        if not int(times):
            continue
        detail = (
            f"the provider's API rejected {counted(int(times), 'credential')} on every call since the gateway started"
        )
        fix = "find them with `gateway connections list` (needs_reauth), then see `gateway connections why ID`"
        place = patient.where("environments", environment, "integrations", integration)
        yield Finding("warn", "credentials", detail, place, fix, f"{environment}/{integration}")

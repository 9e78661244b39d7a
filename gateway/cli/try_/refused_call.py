"""Explain why the gateway refused a call, and what to do: closest names, existing names, a reconnect link."""

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from gateway.cli.terminal import program
from gateway.cli.try_ import TrialFailed
from gateway.cli.try_.try_target import Named, Target
from gateway.client import CallFailed, Client, GatewayError, Stream, Unreachable
from gateway.text import nearest

MOST_SHOWN: Final = 10
MOST_COMPARED: Final = 500


@dataclass(slots=True)
class RefusalHints:
    """Hints for a refused call. `known`: the existing names. `near`: the closest of them. `connect_url`: the link to
    authorize."""

    lines: list[str] = field(default_factory=list)
    known: list[str] | None = None
    near: str | None = None
    connect_url: str | None = None


def explained(client: Client, fault: CallFailed, named: Named | None, target: Target) -> TrialFailed:
    """Return `fault` with hints. Calls the gateway's API for the hints, and leaves out hints whose call fails."""
    if isinstance(fault, Unreachable):
        return TrialFailed(f"no gateway answers at {target.url}: {fault.cause}", f"start it with: {target.start}")
    if not isinstance(fault, GatewayError):
        return TrialFailed(str(fault))
    if not fault.request_id:
        return _stranger(str(fault.status), target)
    advice = RefusalHints()
    with suppress(CallFailed):
        _help(client, fault, named, target, advice)
    error: dict[str, object] = {"status": fault.status, "code": fault.code, "message": fault.message}
    if fault.payload:
        error["payload"] = dict(fault.payload)
    error |= {"hints": advice.lines, "request_id": fault.request_id}
    more: dict[str, Any] = {"known": advice.known, "did_you_mean": advice.near, "connect_url": advice.connect_url}
    error |= {name: value for name, value in more.items() if value is not None}
    request = [f"request id {fault.request_id}"] if fault.request_id else []
    return TrialFailed(f"{fault.code or fault.status}: {fault.message}", *advice.lines, *request, report=error)


def check_response_is_from_gateway(response: Stream, target: Target) -> None:
    """Raise TrialFailed for an answer that does not come from a gateway: each gateway answer has a request id."""
    if not response.request_id:
        raise _stranger(f"{response.status} {response.reason}", target)


def _stranger(status: str, target: Target) -> TrialFailed:
    return TrialFailed(
        f"what answers at {target.url} is not a gateway: its answer ({status}) has no Gateway-Request-Id",
        "pass the gateway's own address with --url, or check the reverse proxy: the gateway behind it may be down",
    )


def _help(client: Client, fault: GatewayError, named: Named | None, target: Target, advice: RefusalHints) -> None:
    if fault.status == 401:
        advice.lines += [
            f"the key came from {target.key_from}; does it belong to the gateway at {target.url}?",
            "give another one as GATEWAY_SECRET_KEY in the environment, or with --key",
        ]
    elif fault.code == "unknown_provider_config" and named is not None:
        _instead(
            advice, fault, named.integration, [one["unique_key"] for one in client.list_integrations()], "integrations"
        )
    elif fault.code == "unknown_connection" and named is not None:
        some = islice(client.list_connections(integrations=[named.integration]), MOST_COMPARED)
        ids = [one["connection_id"] for one in some]
        _instead(advice, fault, named.connection, ids, f"connections of '{named.integration}', newest first")
        _link(advice, fault.connect_url, "open this to connect a user:")
    elif fault.code == "reconnect_needed" and named is not None:
        link, payload = fault.connect_url, fault.payload or {}
        if payload.get("rule") == "integration":
            advice.lines.append(str(payload.get("fix")))
        elif link is None:
            with suppress(CallFailed):
                link = client.create_reconnect_session(named.integration, named.connection)["connect_link"]
        _link(advice, link, "the user authorizes it again here (the connection keeps its id; good for 30 minutes):")
        advice.lines.append(
            f"the whole story: {program()} connections why --integration {named.integration} {named.connection}"
        )
    if fault.retry_at is not None:
        advice.lines.append(f"retry after {fault.retry_at:%Y-%m-%d %H:%M:%S %Z}")
    advice.lines += [f"{'.'.join(map(str, one.get('path', ())))}: {one.get('message', '')}" for one in fault.errors]


def _instead(advice: RefusalHints, fault: GatewayError, wrong: str, known: list[str], what: str) -> None:
    advice.known = known
    near = nearest(wrong, known) or next((one for one in known if one.startswith(wrong)), None)
    if near is not None:
        advice.near = near
        if f"'{near}'" not in fault.message:
            advice.lines.append(f"did you mean '{near}'?")
    if not known:
        advice.lines.append(f"there are no {what}")
        return
    advice.lines += [f"{what}:", *(f"  {one}" for one in known[:MOST_SHOWN])]
    if len(known) > MOST_SHOWN:
        advice.lines.append(f"  … and more: {program()} connections list")


def _link(advice: RefusalHints, link: str | None, words: str) -> None:
    if link is not None:
        advice.connect_url = link
        advice.lines += [words, link]

"""Explains why the gateway refused a call, and what to do.

The hints are similar names, existing names, or a link for the end user to connect again.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote
from typing import Any, Final

from gateway.cli.terminal import configuration_option, program
from gateway.cli.try_ import TrialFailed
from gateway.cli.try_.try_target import ConnectionPath, TargetGateway
from gateway.client import CallFailed, Client, GatewayError, Stream, Unreachable
from gateway.text import nearest

MAX_SHOWN: Final = 10
MAX_COMPARED: Final = 500  # maximum number of ids that are searched for the most similar id


@dataclass(slots=True)
class RefusalHints:
    """Hints for a refused call.

    `lines`: the hints as text.
    `known_names`: the existing names; None if names do not help.
    `similar_name`: the existing name that is most similar to the given name.
    `connect_url`: the link with which the end user connects.
    """

    lines: list[str] = field(default_factory=list)
    known_names: list[str] | None = None
    similar_name: str | None = None
    connect_url: str | None = None


def explain_refusal(
    client: Client, fault: CallFailed, call_path: ConnectionPath | None, target_gateway: TargetGateway
) -> TrialFailed:
    """Return `fault` with hints.

    The hints come from the gateway's API. If a request for a hint fails, this hint is left out.
    """
    if isinstance(fault, Unreachable):
        return TrialFailed(
            f"no gateway responds at {target_gateway.url}: {fault.cause}",
            f"start it with: {target_gateway.start_command}",
        )
    if not isinstance(fault, GatewayError):
        return TrialFailed(str(fault))
    if not fault.request_id:
        return _not_a_gateway_error(str(fault.status), target_gateway)
    hints = RefusalHints()
    with suppress(CallFailed):
        _add_hints(client, fault, call_path, target_gateway, hints)
    error: dict[str, object] = {"status": fault.status, "code": fault.code, "message": fault.message}
    if fault.payload:
        error["payload"] = dict(fault.payload)
    error |= {"hints": hints.lines, "request_id": fault.request_id}
    advice_members: dict[str, Any] = {
        "known": hints.known_names,
        "did_you_mean": hints.similar_name,
        "connect_url": hints.connect_url,
    }
    error |= {name: value for name, value in advice_members.items() if value is not None}
    request = [f"request id {fault.request_id}"] if fault.request_id else []
    return TrialFailed(f"{fault.code or fault.status}: {fault.message}", *hints.lines, *request, report=error)


def check_response_is_from_gateway(response: Stream, target_gateway: TargetGateway) -> None:
    """Raise TrialFailed if the response has no request id. Every response of a gateway has a request id."""
    if not response.request_id:
        raise _not_a_gateway_error(f"{response.status} {response.reason}", target_gateway)


def _not_a_gateway_error(status: str, target_gateway: TargetGateway) -> TrialFailed:
    return TrialFailed(
        f"the server at {target_gateway.url} is not a gateway: its response ({status}) has no Gateway-Request-Id",
        "pass the gateway's own URL with --url, or check the reverse proxy: the gateway behind it may be down",
    )


def _add_hints(
    client: Client,
    fault: GatewayError,
    call_path: ConnectionPath | None,
    target_gateway: TargetGateway,
    hints: RefusalHints,
) -> None:
    if fault.status == 401:
        hints.lines += [
            f"the key comes from {target_gateway.key_source}; check that it belongs to the gateway at {target_gateway.url}",
            "pass another key in the environment variable GATEWAY_SECRET_KEY, or with --key",
        ]
    elif fault.code == "unknown_provider_config" and call_path is not None:
        _add_known_names(
            hints,
            fault,
            call_path.integration,
            [integration["unique_key"] for integration in client.list_integrations()],
            "integrations",
            target_gateway,
        )
    elif fault.code == "unknown_connection" and call_path is not None:
        candidates = islice(client.list_connections(integrations=[call_path.integration]), MAX_COMPARED)
        ids = [connection["connection_id"] for connection in candidates]
        order = ", newest first" if ids else ""
        _add_known_names(
            hints,
            fault,
            call_path.connection,
            ids,
            f"connections of '{call_path.integration}'{order}",
            target_gateway,
        )
        _add_link(hints, fault.connect_url, "open this link to connect a user:")
    elif fault.code == "reconnect_needed" and call_path is not None:
        link, payload = fault.connect_url, fault.payload or {}
        if payload.get("rule") == "integration":
            hints.lines.append(str(payload.get("fix")))
        elif link is None:
            with suppress(CallFailed):
                link = client.create_reconnect_session(call_path.integration, call_path.connection)["connect_link"]
        _add_link(
            hints,
            link,
            "the user authorizes again with this link (valid for 30 minutes; the connection keeps its id):",
        )
        arguments = f"--integration {quote(call_path.integration)} {quote(call_path.connection)}"
        hints.lines.append(
            f"more details: {program()} connections why{configuration_option(target_gateway.file)} {arguments}"
        )
    if fault.retry_at is not None:
        hints.lines.append(f"retry after {fault.retry_at:%Y-%m-%d %H:%M:%S %Z}")
    hints.lines += [
        f"{'.'.join(map(str, error.get('path', ())))}: {error.get('message', '')}" for error in fault.errors
    ]


def _add_known_names(
    hints: RefusalHints,
    fault: GatewayError,
    unknown_name: str,
    existing_names: list[str],
    kind: str,
    target_gateway: TargetGateway,
) -> None:
    hints.known_names = existing_names
    similar_name = nearest(unknown_name, existing_names) or next(
        (name for name in existing_names if name.startswith(unknown_name)), None
    )
    if similar_name is not None:
        hints.similar_name = similar_name
        if f"'{similar_name}'" not in fault.message:
            hints.lines.append(f"did you mean '{similar_name}'?")
    if not existing_names:
        hints.lines.append(f"there are no {kind}")
        return
    hints.lines += [f"{kind}:", *(f"  {name}" for name in existing_names[:MAX_SHOWN])]
    if len(existing_names) > MAX_SHOWN:
        hints.lines.append(f"  … more: {program()} connections list{configuration_option(target_gateway.file)}")


def _add_link(hints: RefusalHints, link: str | None, label: str) -> None:
    if link is not None:
        hints.connect_url = link
        hints.lines += [label, link]

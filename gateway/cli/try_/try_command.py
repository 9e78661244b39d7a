"""``gateway try``: sends one call through a running gateway and shows it in full."""

import codecs
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from gateway.cli.options import as_json
from gateway.cli.terminal import exit_on_faults, without_control_characters
from gateway.cli.try_.try_snippets import SentCall
from gateway.cli.try_.try_snippets import read as read_body
from gateway.cli.try_.try_target import ConnectionPath
from gateway.client import Client, Stream
from gateway.client.calls import proxied_url

if TYPE_CHECKING:
    from gateway.cli.try_ import TrialFailed
    from gateway.cli.try_.try_target import TargetGateway

# ── The call: builds the request from the command line, sends the request and reads the response.

METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Z-]+")  # the characters that a method can contain (RFC 9110 §9.1)


@dataclass(frozen=True, slots=True)
class TriedCall:
    """The arguments and options that describe the call, exactly as on the command line.

    Options that select the gateway are not included.
    """

    integration: str | None
    connection: str | None
    path: str | None
    method: str | None
    body: str | None
    headers: tuple[str, ...]
    query: tuple[str, ...]
    dry_run: bool
    show_all: bool
    snippet: str
    as_json: bool


def build_call(url: str, requested_call: TriedCall, call_path: ConnectionPath) -> SentCall:
    """Return the request that the user describes. Raises BadParameter for an invalid option."""
    body = None if requested_call.body is None else read_body(requested_call.body)
    fields: dict[str, str] = {}
    for line in requested_call.headers:
        field, colon, value = line.partition(":")
        if not colon or not field.strip():
            raise click.BadParameter(f"'{line}' is not 'NAME: VALUE'", param_hint="-H")
        fields[field.strip()] = value.strip()
    if body is not None and "content-type" not in {field.lower() for field in fields}:
        fields["Content-Type"] = body.content_type
    pairs = []
    for pair in requested_call.query:
        field, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"'{pair}' is not NAME=VALUE", param_hint="-q")
        pairs.append((field, value))
    target = proxied_url(url, call_path.path, pairs).removeprefix(f"{url}/proxy")
    method = (requested_call.method or ("GET" if body is None else "POST")).upper()
    if not METHOD.fullmatch(method):
        raise click.BadParameter(f"'{method}' is not a method", param_hint="-X")
    return SentCall(url, method, target, call_path.integration, call_path.connection, fields, body)


@contextmanager
def send(client: Client, sent_call: SentCall, *, dry_run: bool = False) -> Iterator[Stream]:
    headers = {**sent_call.headers, **({"Gateway-Dry-Run": "true"} if dry_run else {})}
    options: dict[str, Any] = {} if sent_call.body is None else {"data": sent_call.body.content}
    with client.stream(
        sent_call.method,
        sent_call.target,
        provider_config_key=sent_call.integration,
        connection_id=sent_call.connection,
        headers=headers,
        **options,
    ) as response:
        yield response


def read_response(response: Stream, max_bytes: int | None, *, live: bool) -> tuple[bytes, bool]:
    """Return the response's body, and whether the body is complete. Ctrl-C ends an endless response.

    `max_bytes`: stop after this many bytes; None: read to the end.
    `live`: also print each part of the body on arrival.
    """
    content = bytearray()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a piece can end in the middle of a character
    try:
        for piece in response:
            content += piece
            if live:
                click.echo(without_control_characters(decoder.decode(piece).replace("\r", "")), nl=False)
            if max_bytes is not None and len(content) >= max_bytes:
                return bytes(content), False
    except KeyboardInterrupt:
        return bytes(content), False
    return bytes(content), True


def decoded_body(content: bytes) -> Any:
    """Return the content as JSON if it is JSON, else as text if it is UTF-8, else as base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(content).decode()}
    try:
        return json.loads(text)
    except ValueError:
        return text


SNIPPETS: Final = ("all", "none", "curl", "python", "requests", "node", "nango")
MAX_BODY_BYTES: Final = 1 << 20
REFUSED, PROVIDER_ERROR = 1, 3


@click.command("try")
@click.argument("integration", required=False)
@click.argument("connection", required=False)
@click.argument("path", required=False)
@click.option("-X", "--request", "method", metavar="METHOD", help="The method.  [default: GET, or POST with a body]")
@click.option(
    "-d",
    "--data",
    "body",
    metavar="BODY|@FILE",
    help="The body, sent unchanged; @FILE reads it from FILE, @- from stdin. Unlike with curl, a JSON body is sent as "
    "application/json, unless -H sets another type.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header for the provider; may be repeated.",
)
@click.option("-q", "--query", "query", multiple=True, metavar="NAME=VALUE", help="A query parameter; may be repeated.")
@click.option(
    "--dry-run", "dry_run", is_flag=True, help="Send nothing to the provider: show the request that would be sent."
)
@click.option("--all", "show_all", is_flag=True, help="Show the complete response.")
@click.option("--snippet", type=click.Choice(SNIPPETS), default="all", show_default=True, help="The snippets to print.")
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="The gateway's configuration file."
)
@click.option("--url", envvar="GATEWAY_URL", metavar="URL", help="The gateway's URL.  [env: GATEWAY_URL]")
@click.option("--key", envvar="GATEWAY_SECRET_KEY", metavar="KEY", help="Its secret key.  [env: GATEWAY_SECRET_KEY]")
@click.option("--environment", metavar="NAME", help="The environment, if the configuration has more than one.")
@as_json
def try_call(file: Path | None, url: str | None, key: str | None, environment: str | None, **call_options: Any) -> None:
    """Send one call to PATH of the provider, on behalf of CONNECTION. Show the request as sent (with the credential
    masked), the response, where the time went, and the call as curl, Python and Node.

    CONNECTION defaults to the newest connection, PATH to the call with which the provider's entry verifies credentials.
    {cloudId} in PATH is replaced by that setting of the connection. The gateway is that of gateway.yaml in the current
    folder, or that of the demo's folder .gateway.

    Exit codes: 0 the provider returned a status below 400, 1 the gateway refused the call or could not be reached, 3
    the provider returned a status of 400 or more.
    """
    from gateway.cli.try_ import TrialFailed, try_target
    from gateway.client import Client

    requested_call = TriedCall(**call_options)
    with exit_on_faults(requested_call.as_json):
        try:
            target_gateway = try_target.find_target(file, url, key, environment)
            _check(target_gateway)
            with Client(target_gateway.url, target_gateway.key.reveal()) as client:
                sys.exit(_make_call(client, target_gateway, requested_call))
        except TrialFailed as failed:
            _exit_with_failure(failed, requested_call.as_json)


def _check(target_gateway: "TargetGateway") -> None:
    from gateway.cli.try_ import TrialFailed
    from gateway.client.client_errors import checked_base_url, checked_key

    try:
        checked_base_url(target_gateway.url)
        checked_key(target_gateway.key.reveal())
    except ValueError as fault:
        raise TrialFailed(str(fault)) from None


def _make_call(client: "Client", target_gateway: "TargetGateway", requested_call: "TriedCall") -> int:
    """Make the call, print the results and return the exit code. Raises TrialFailed."""
    from gateway.cli.try_.refused_call import check_response_is_from_gateway, explain_refusal
    from gateway.cli.try_.try_target import UNKNOWN, ConnectionPath, resolve
    from gateway.client import CallFailed

    call_path = None
    if requested_call.integration is not None and requested_call.connection is not None:
        call_path = ConnectionPath(requested_call.integration, requested_call.connection, requested_call.path or "/")
    try:
        call_path = resolve(client, requested_call.integration, requested_call.connection, requested_call.path)
        sent_call = build_call(target_gateway.url, requested_call, call_path)
        if requested_call.path is None and not requested_call.as_json and call_path.connection != UNKNOWN:
            print(
                f"Calling {call_path.integration} as {call_path.connection}: {sent_call.method} {sent_call.target}\n",
                file=sys.stderr,
            )
        if requested_call.dry_run:
            return _report_dry_run(
                _dry_run_request(client, sent_call, target_gateway), sent_call, target_gateway, requested_call
            )
        began_at = time.perf_counter()
        with send(client, sent_call) as response:
            head_s = time.perf_counter() - began_at
            check_response_is_from_gateway(response, target_gateway)
            # The dry run follows the call. If a token must be refreshed, the call itself then waits for the refresh,
            # and the call's timing shows the wait.
            return _report(
                response,
                _dry_run_request(client, sent_call, target_gateway),
                sent_call,
                target_gateway,
                requested_call,
                head_s,
            )
    except CallFailed as fault:
        raise explain_refusal(client, fault, call_path, target_gateway) from fault


def _dry_run_request(client: "Client", sent_call: "SentCall", target_gateway: "TargetGateway") -> Any:
    """Return the request to the provider from a dry run, with the credential masked."""
    from gateway.cli.try_.refused_call import check_response_is_from_gateway

    with send(client, sent_call, dry_run=True) as response:
        check_response_is_from_gateway(response, target_gateway)
        return response.whole().json()


def _report_dry_run(
    request: Any, sent_call: "SentCall", target_gateway: "TargetGateway", requested_call: "TriedCall"
) -> int:
    from gateway.cli.try_ import try_output

    if requested_call.as_json:
        print(
            json.dumps(
                {"request": request, "snippets": _snippets(sent_call, requested_call)}, indent=2, ensure_ascii=False
            )
        )
        return 0
    click.echo(try_output.request_text(request, dry_run=True))
    _print_snippets(sent_call, target_gateway, requested_call)
    return 0


def _report(
    response: "Stream",
    request: Any,
    sent_call: "SentCall",
    target_gateway: "TargetGateway",
    requested_call: "TriedCall",
    head_s: float,
) -> int:
    from gateway.cli.try_ import try_output

    headers = list(response.headers.items())
    content_type = response.headers.get("Content-Type", "")
    if not requested_call.as_json:
        click.echo(f"{try_output.request_text(request, dry_run=False)}\n")
        click.echo(f"{try_output.response_head(response.status, response.reason, headers)}\n")
    is_live = not requested_call.as_json and content_type.partition(";")[0].strip() in (
        "text/event-stream",
        "application/x-ndjson",
    )
    began_at = time.perf_counter()
    content, is_whole = read_response(
        response, None if requested_call.show_all or requested_call.as_json or is_live else MAX_BODY_BYTES, live=is_live
    )
    total_s = head_s + time.perf_counter() - began_at
    timing_ms = try_output.timing_parts(response.headers.getall("Server-Timing", []), total_s * 1000)
    if requested_call.as_json:
        report = {"request": request, "status": response.status, "reason": response.reason, "headers": headers}
        report |= {
            "body": decoded_body(content),
            "complete": is_whole,
            "timing_ms": timing_ms,
            "snippets": _snippets(sent_call, requested_call),
        }
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        if not is_live:
            click.echo(
                try_output.response_body(content, content_type, show_all=requested_call.show_all, is_whole=is_whole)
            )
        click.echo(f"\n{try_output.timing_text(timing_ms)}")
        _print_snippets(sent_call, target_gateway, requested_call)
    return PROVIDER_ERROR if response.status >= 400 else 0


def _snippets(sent_call: "SentCall", requested_call: "TriedCall") -> dict[str, str]:
    from gateway.cli.try_ import try_snippets

    return {
        name: write(sent_call)
        for name, (_, write) in try_snippets.ALL.items()
        if requested_call.snippet in ("all", name)
    }


def _print_snippets(sent_call: "SentCall", target_gateway: "TargetGateway", requested_call: "TriedCall") -> None:
    from gateway.cli.try_ import try_output

    names = list(_snippets(sent_call, requested_call))
    if names:
        click.echo(f"\n{try_output.snippets_text(sent_call, names, target_gateway.key_file)}")


def _exit_with_failure(failed: "TrialFailed", as_json: bool) -> NoReturn:
    """Print the fault and its hints on stderr, and exit with code `REFUSED`.

    `as_json`: also print the fault as JSON to stdout.
    """
    if as_json:
        print(json.dumps({"error": failed.report}, indent=2, ensure_ascii=False), flush=True)
    first_line, *hints = failed.lines
    print(f"gateway: {first_line}", file=sys.stderr)
    for hint in hints:
        print(hint, file=sys.stderr)
    sys.exit(REFUSED)

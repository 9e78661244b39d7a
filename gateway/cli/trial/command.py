"""``gateway try``: one call through a running gateway, and all there is to know about it."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from gateway.cli.options import as_json
from gateway.cli.refusal import faults_end_the_command

if TYPE_CHECKING:
    from gateway.cli.trial import TrialFailed
    from gateway.cli.trial.call import Wish
    from gateway.cli.trial.snippets import Sent
    from gateway.cli.trial.target import Target
    from gateway.client import Client, Stream

SNIPPETS: Final = ("all", "none", "curl", "python", "requests", "node", "nango")
ENOUGH_BYTES: Final = 1 << 20
REFUSED, PROVIDER_SAID_NO = 1, 3


@click.command("try")
@click.argument("integration", required=False)
@click.argument("connection", required=False)
@click.argument("path", required=False)
@click.option("-X", "--request", "method", metavar="METHOD", help="GET, or POST where there is a body.")
@click.option(
    "-d",
    "--data",
    "body",
    metavar="BODY|@FILE",
    help="The body, sent as it is; @FILE reads it from there, @- from stdin. Unlike with curl, a body that is JSON goes as "
    "application/json, unless -H says otherwise.",
)
@click.option("-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="For the provider; repeatable.")
@click.option(
    "-q", "--query", "query", multiple=True, metavar="NAME=VALUE", help="Added to the path's query; repeatable."
)
@click.option("--dry-run", "dry", is_flag=True, help="Send nothing: show the request that would be sent.")
@click.option("--all", "everything", is_flag=True, help="Show the whole answer.")
@click.option(
    "--snippet", type=click.Choice(SNIPPETS), default="all", show_default=True, help="Which snippets to print."
)
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="The gateway's configuration."
)
@click.option("--url", envvar="GATEWAY_URL", metavar="URL", help="The gateway's address.  [env: GATEWAY_URL]")
@click.option("--key", envvar="GATEWAY_SECRET_KEY", metavar="KEY", help="Its secret key.  [env: GATEWAY_SECRET_KEY]")
@click.option("--environment", metavar="NAME", help="The environment, where the configuration has more than one.")
@as_json
def trial(file: Path | None, url: str | None, key: str | None, environment: str | None, **typed: Any) -> None:
    """Send one call to PATH of the provider, on behalf of CONNECTION, and show the request as it left (the credential
    masked), the answer, where the time went, and the call as curl, Python and Node.

    Without CONNECTION the newest one is taken, without PATH the call that the provider's entry checks credentials with.
    {cloudId} in PATH stands for that setting of the connection. The gateway is the one whose gateway.yaml, or whose
    demo's .gateway folder, lies here.

    Exit codes: 0 the provider answered below 400, 1 the gateway refused or was not reached, 3 the provider answered 400
    or more.
    """
    from gateway.cli.trial import TrialFailed, target
    from gateway.cli.trial.call import Wish
    from gateway.client import Client

    wish = Wish(**typed)
    with faults_end_the_command(wish.as_json):
        try:
            there = target.find(file, url, key, environment)
            _check(there.url)
            with Client(there.url, there.key.reveal()) as client:
                sys.exit(_tried(client, there, wish))
        except TrialFailed as failed:
            _end(failed, wish.as_json)


def _check(url: str) -> None:
    from gateway.cli.trial import TrialFailed
    from gateway.client.way import checked

    try:
        checked(url)
    except ValueError as fault:
        raise TrialFailed(str(fault)) from None


def _tried(client: "Client", there: "Target", wish: "Wish") -> int:
    """The exit code. Raises TrialFailed."""
    from gateway.cli.trial.call import call_of, streamed
    from gateway.cli.trial.diagnosis import check_ours, explained
    from gateway.cli.trial.named import Named, name
    from gateway.client import CallFailed

    named = None
    if wish.integration is not None and wish.connection is not None:
        named = Named(wish.integration, wish.connection, wish.path or "/")
    try:
        named = name(client, wish.integration, wish.connection, wish.path)
        sent = call_of(there.url, wish, named)
        if wish.path is None and not wish.as_json:
            print(f"Calling {named.integration} as {named.connection}: {sent.method} {sent.target}\n", file=sys.stderr)
        if wish.dry:
            return _dry(_as_sent(client, sent, there), sent, there, wish)
        began = time.perf_counter()
        with streamed(client, sent) as answer:
            head_s = time.perf_counter() - began
            check_ours(answer, there)
            # Asked for only now: whoever asks first waits for a token that has to be renewed.
            return _told(answer, _as_sent(client, sent, there), sent, there, wish, head_s)
    except CallFailed as fault:
        raise explained(client, fault, named, there) from fault


def _as_sent(client: "Client", sent: "Sent", there: "Target") -> Any:
    """The request to the provider, its credential masked."""
    from gateway.cli.trial.call import streamed
    from gateway.cli.trial.diagnosis import check_ours

    with streamed(client, sent, dry=True) as answer:
        check_ours(answer, there)
        return answer.whole().json()


def _dry(request: Any, sent: "Sent", there: "Target", wish: "Wish") -> int:
    from gateway.cli.trial import shown

    if wish.as_json:
        print(json.dumps({"request": request, "snippets": _snippets(sent, wish)}, indent=2, ensure_ascii=False))
        return 0
    click.echo(shown.request(request, dry=True))
    _print_snippets(sent, there, wish)
    return 0


def _told(answer: "Stream", request: Any, sent: "Sent", there: "Target", wish: "Wish", head_s: float) -> int:
    from gateway.cli.trial import shown, timing
    from gateway.cli.trial.call import read_answer, value

    headers = list(answer.headers.items())
    kind = answer.headers.get("Content-Type", "")
    if not wish.as_json:
        click.echo(f"{shown.request(request, dry=False)}\n")
        click.echo(f"{shown.head(answer.status, answer.reason, headers)}\n")
    live = not wish.as_json and kind.partition(";")[0].strip() in ("text/event-stream", "application/x-ndjson")
    began = time.perf_counter()
    content, whole = read_answer(answer, None if wish.everything or wish.as_json or live else ENOUGH_BYTES, live=live)
    total_s = head_s + time.perf_counter() - began
    spent = timing.parts(answer.headers.getall("Server-Timing", []), total_s * 1000)
    if wish.as_json:
        told = {"request": request, "status": answer.status, "reason": answer.reason, "headers": headers}
        told |= {"body": value(content), "complete": whole, "timing_ms": spent, "snippets": _snippets(sent, wish)}
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        if not live:
            click.echo(shown.body(content, kind, everything=wish.everything, whole=whole))
        click.echo(f"\n{shown.took(spent)}")
        _print_snippets(sent, there, wish)
    return PROVIDER_SAID_NO if answer.status >= 400 else 0


def _snippets(sent: "Sent", wish: "Wish") -> dict[str, str]:
    from gateway.cli.trial import snippets

    return {name: write(sent) for name, (_, write) in snippets.ALL.items() if wish.snippet in ("all", name)}


def _print_snippets(sent: "Sent", there: "Target", wish: "Wish") -> None:
    from gateway.cli.trial import shown

    names = list(_snippets(sent, wish))
    if names:
        click.echo(f"\n{shown.calls(sent, names, there.key_file)}")


def _end(failed: "TrialFailed", as_json: bool) -> NoReturn:
    """The fault on stderr, its hints below it; as a line of JSON on stdout too."""
    if as_json:
        print(json.dumps({"error": failed.told}, indent=2, ensure_ascii=False))
    first, *hints = failed.lines
    print(f"gateway: {first}", file=sys.stderr)
    for hint in hints:
        print(hint, file=sys.stderr)
    sys.exit(REFUSED)

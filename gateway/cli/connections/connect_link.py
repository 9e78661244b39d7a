"""``gateway connections link``: prints a link with which an end user connects an account.

The operator sends the link, for example by mail or chat.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import Span, as_json, config_file, environment
from gateway.cli.run_command import check_integration, run, select_environment

if TYPE_CHECKING:
    from gateway.records.connecting import ConnectSession
    from gateway.runtime import Runtime


@click.command()
@config_file
@environment
@click.option(
    "--integration",
    "integrations",
    multiple=True,
    required=True,
    metavar="KEY",
    help="An integration that the end user may connect; may be repeated.",
)
@click.option("--end-user", metavar="ID", help="The end user's id in your application.")
@click.option("--display-name", metavar="NAME", help="The end user's name, shown on the page.")
@click.option("--email", metavar="ADDRESS", help="The end user's e-mail address.")
@click.option(
    "--reconnect", metavar="CONNECTION", help="Authorize this connection again. Its id and its end user stay the same."
)
@click.option("--expires-in", type=Span(), metavar="3d", help="How long the link is valid: 1m to 7d.  [default: 30m]")
@click.option(
    "--single-use", is_flag=True, help="The link works only in the first browser in which a person continues."
)
@click.option("--max-connections", type=int, metavar="N", help="Maximum number of connections.")
@click.option("--return-url", metavar="URL", help="The page of your application to which the end user returns.")
@click.option("--state", metavar="TEXT", help="Returned to --return-url unchanged.")
@click.option(
    "--code-challenge", metavar="S256", help="Connections stay pending until your application completes the session."
)
@as_json
def link(file: Path, environment: str | None, integrations: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print a link with which an end user connects an account, or authorizes a connection again.

    The link works for anybody who opens it: send it only to that end user.
    """
    reconnect = options.pop("reconnect")
    if reconnect is None and options["end_user"] is None:
        raise click.UsageError("Give the end user with --end-user ID, or a connection with --reconnect.")
    if options["end_user"] is None and (options["display_name"] or options["email"]):
        raise click.UsageError("--display-name and --email need --end-user ID.")
    if reconnect is not None and len(integrations) > 1:
        raise click.UsageError("--reconnect takes one --integration.")

    async def work(runtime: "Runtime") -> int:
        from gateway.access.caller import Caller
        from gateway.api import connect_endpoints
        from gateway.api.request_body import validated
        from gateway.records.access import Environment

        environment_name = select_environment(runtime, environment)
        for integration in integrations:
            await check_integration(runtime, environment_name, integration)
        caller = Caller(Environment(environment_name))
        body = _body(**options)
        if reconnect is None:
            session_request = validated(
                {**body, "allowed_integrations": list(integrations)}, connect_endpoints.NewSession, "invalid_body"
            )
            token, session = await connect_endpoints.new_session(runtime, runtime.generation, caller, session_request)
        else:
            body |= {"integration_id": integrations[0], "connection_id": reconnect}
            reconnect_body = validated(body, connect_endpoints.Reconnect, "invalid_body")
            token, session = await connect_endpoints.reconnect_session(
                runtime, runtime.generation, caller, reconnect_body
            )
        session_json = connect_endpoints.connect_session_json(runtime.generation, token, session)
        if as_json:
            print(json.dumps(session_json, indent=2))
        else:
            print(session_json["connect_link"])
            print(f"\n{_link_terms(session)}\nTo get the result: GET {session_json['poll_url']}", file=sys.stderr)
        return 0

    run(file, work, as_json=as_json)


def _body(
    end_user: str | None,
    display_name: str | None,
    email: str | None,
    expires_in: timedelta | None,
    single_use: bool,
    **other_options: Any,
) -> dict[str, Any]:
    """Return the body of the API request that creates the same link. Options without a value are left out."""
    user = {"id": end_user, "display_name": display_name, "email": email}
    body = {
        "end_user": {name: text for name, text in user.items() if text is not None} if end_user is not None else None,
        "expires_in": int(expires_in.total_seconds()) if expires_in is not None else None,
        "single_use": single_use or None,
        **other_options,
    }
    return {name: value for name, value in body.items() if value is not None}


def _link_terms(session: "ConnectSession") -> str:
    from gateway.text import counted

    terms = [f"Valid until {session.expires_at:%Y-%m-%d %H:%M} UTC"]
    if session.max_connections is not None:
        terms.append(f"for {counted(session.max_connections, 'connection')}")
    if session.single_use:
        terms.append("in one browser")
    if session.needs_completion:
        terms.append("pending until your application completes it")
    return f"{', '.join(terms)}."

"""``gateway init``: what a gateway of one's own needs to start: a configuration, an encryption key and a secret key."""

import base64
import json
import secrets
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import click

from gateway.cli.options import as_json
from gateway.cli.program import program

CONFIGURATION = """\
# The configuration of an integration gateway. Every key and its default: docs/configuration.md.
# ${{NAME}} is taken from the environment, ${{file:name}} from a file beside this one; `gateway check` finds what is wrong.
server:
  host: "{host}"                      # 0.0.0.0 listens on every address, as in a container
  port: {port}
  # As browsers reach this gateway. At each provider, register the callback address
  # {callback_url}
  public_url: {public_url}
store:
  url: sqlite:///gateway.db              # relative to this file
  encryption_keys: ["${{file:encryption_key}}"]    # without this key no stored credential can be read: back it up

environments:
  dev:
    secret_keys: ["${{file:secret_key}}"]          # your application sends it: Authorization: Bearer <secret key>
    integrations: {{}}
    # integrations:                      # one for each provider you use; `gateway catalog list` shows what there is
    #   jira:
    #     provider: jira
    #     client_id: ${{JIRA_CLIENT_ID}}
    #     client_secret: ${{JIRA_CLIENT_SECRET}}
    #     scopes: [read:jira-work, offline_access]
"""
KEYS = ("encryption_key", "secret_key")
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 3003


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where to write; made if need be.  [default: here]",
)
@click.option("--public-url", metavar="URL", help="The address under which browsers will reach the gateway.")
@click.option("--force", is_flag=True, help="Write gateway.yaml anew. Keys that exist are kept in any case.")
@as_json
def init(folder: Path, public_url: str | None, force: bool, as_json: bool) -> None:
    """Write gateway.yaml, encryption_key and secret_key, readable by their owner alone.

    Prints the callback address to register at every provider. Nothing that exists is overwritten.
    """
    from gateway.cli.private_files import Existing, write_private

    url, host, port = _address(public_url)
    file = folder / "gateway.yaml"
    callback_url = f"{url}/oauth/callback"
    text = CONFIGURATION.format(host=host, port=port, public_url=url, callback_url=callback_url)
    contents = {"encryption_key": _encryption_key(), "secret_key": _secret_key()}
    if force:
        contents = {name: content for name, content in contents.items() if not (folder / name).exists()}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(
            {folder / name: content for name, content in contents.items()} | {file: text}, over=force and file
        )
    except Existing as error:
        raise click.ClickException(_refusal(error.paths)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    if as_json:
        paths = {name: str(folder / name) for name in KEYS}
        print(json.dumps({"config": str(file), **paths, "public_url": url, "callback_url": callback_url}, indent=2))
    else:
        print(_told(folder, file, callback_url, kept=[name for name in KEYS if name not in contents]))


def _address(public_url: str | None) -> tuple[str, str, int]:
    """The public URL as the configuration takes it, and the host and port to listen on: those of a loopback URL itself,
    else the defaults, behind whatever ends TLS for an https one."""
    from gateway.config import values
    from gateway.config.model import default_public_url

    if public_url is None:
        return default_public_url(DEFAULT_HOST, DEFAULT_PORT), DEFAULT_HOST, DEFAULT_PORT
    try:
        url = values.public_url(public_url)
    except ValueError as error:
        raise click.BadParameter(f"it {error}", param_hint="--public-url") from None
    parts = urlsplit(url)
    if parts.scheme == "https":
        return url, DEFAULT_HOST, DEFAULT_PORT
    return url, parts.hostname or DEFAULT_HOST, parts.port or 80


def _encryption_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode() + "\n"


def _secret_key() -> str:
    from gateway.keys import mint

    return mint().reveal() + "\n"


def _refusal(paths: list[Path]) -> str:
    names = ", ".join(map(str, paths))
    if any(path.name in KEYS for path in paths):
        return f"{names} exist already; name another folder with --dir, or --force to keep the keys and write the rest anew"
    return f"{names} exists already; name another folder with --dir, or write it anew with --force"


def _told(folder: Path, file: Path, callback_url: str, kept: list[str]) -> str:
    typed = program()
    given = shlex.quote(str(file))
    keys = "\n".join(f"  {folder / name}{'  (kept)' if name in kept else ''}" for name in KEYS)
    return f"""Written, for you alone to read:
  {file}
{keys}

Register this callback address at each provider:

{callback_url}

Next:
  1. Back up {folder / "encryption_key"} apart from the database, and keep both keys out of version control.
  2. Declare an integration in {file}; `{typed} catalog list` shows the providers.
  3. {typed} check -c {given}
  4. {typed} serve -c {given}"""

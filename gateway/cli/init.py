"""``gateway init``: what a gateway of one's own needs to start: a configuration, an encryption key and a secret key."""

import base64
import json
import os
import secrets
import select
import shlex
import stat
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json
from gateway.cli.program import program

if TYPE_CHECKING:
    from gateway.catalog.load import Catalog
    from gateway.catalog.provider import Provider
    from gateway.cli.beginning.answers import Answers

KEYS = ("encryption_key", "secret_key")


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
@click.option("--host", metavar="ADDRESS", help="The address to listen on; 0.0.0.0 for all, as in a container.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="PORT", help="The port to listen on.")
@click.option(
    "--store-url", metavar="URL", help="sqlite:///FILE, or postgresql://user:password@host/database for several nodes."
)
@click.option("--provider", metavar="NAME", help="The first integration: an entry of the catalog.")
@click.option("--webhook-url", metavar="URL", help="Where your application wants to hear of its connections.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; what is not given has its default.")
@click.option("--force", is_flag=True, help="Write gateway.yaml anew. Keys that exist are kept in any case.")
@as_json
def init(folder: Path, yes: bool, force: bool, as_json: bool, **given: "str | int | None") -> None:
    """Write gateway.yaml, encryption_key and secret_key, readable by their owner alone.

    On a terminal it asks for what no option says. Prints the callback address to register at every provider, and what is
    to be done next. Nothing that exists is overwritten.
    """
    from dataclasses import replace

    from gateway.cli.beginning.answers import (
        DEFAULT_HOST,
        Answers,
        about_port,
        asked,
        checked,
        default_url,
        entry_of,
        free_port,
        unreached,
    )
    from gateway.cli.beginning.text import DATABASE_URL, configuration, hides_password

    usual_port = free_port(str(given["host"] or DEFAULT_HOST))
    answers = checked(Answers(**given, usual_port=usual_port), _catalog)  # type: ignore[arg-type]
    file = folder / "gateway.yaml"
    if not (yes or as_json) and answers_are_piped():
        raise click.UsageError(
            "Answers on standard input are not read: pass them as options (`gateway init --help`), or --yes for the defaults."
        )
    if not (yes or as_json) and at_a_terminal():
        _refuse_existing([file, *(folder / name for name in KEYS)], force)  # before anybody has answered for nothing
        answers = asked(answers, _catalog)
    answers = replace(answers, public_url=answers.public_url or default_url(answers))
    provider = entry_of(answers, _catalog)
    text = configuration(answers, provider)
    contents = {"encryption_key": _encryption_key(), "secret_key": _secret_key()}
    if hides_password(answers):
        contents[DATABASE_URL] = f"{answers.store_url}\n"
    names = list(contents)
    if force:
        contents = {name: content for name, content in contents.items() if not (folder / name).exists()}
    _write(folder, file, text, contents, force=force)
    warnings = [warning for warning in (about_port(answers), unreached(answers)) if warning]
    for warning in warnings:
        print(f"gateway: warning: {warning}", file=sys.stderr)
    if as_json:
        paths = {name: str(folder / name) for name in names}
        urls = {"public_url": answers.public_url, "callback_url": f"{answers.public_url}/oauth/callback"}
        print(
            json.dumps({"config": str(file), **paths, **urls, **({"warnings": warnings} if warnings else {})}, indent=2)
        )
    else:
        print(_told(folder, file, text, answers, provider, {name: name not in contents for name in names}))


def at_a_terminal() -> bool:
    """Whether somebody is there to be asked; questions go to stderr, so that stdout may be kept."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def answers_are_piped() -> bool:
    """Whether standard input is a pipe or a file with something in it."""
    try:
        descriptor = sys.stdin.fileno()
        state = os.fstat(descriptor)
        if stat.S_ISREG(state.st_mode):
            return state.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(state.st_mode):
            return False
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return any(event & select.POLLIN for _, event in waiting.poll(0))
    except (OSError, ValueError, AttributeError):  # closed, or none at all
        return False


@cache
def _catalog() -> "Catalog":
    """Read only when a provider is named."""
    from gateway.declared import catalog_of

    return catalog_of(None)


def _write(folder: Path, file: Path, text: str, contents: dict[str, str], *, force: bool) -> None:
    from gateway.cli.private_files import Existing, write_private

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(
            {folder / name: content for name, content in contents.items()} | {file: text}, over=force and file
        )
    except Existing as error:
        raise click.ClickException(_refusal(error.paths)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder} cannot be written: {error.strerror}") from None


def _encryption_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode() + "\n"


def _secret_key() -> str:
    from gateway.keys import mint

    return mint().reveal() + "\n"


def _refuse_existing(paths: list[Path], force: bool) -> None:
    there = [] if force else [path for path in paths if path.exists()]
    if there:
        raise click.ClickException(_refusal(there))


def _refusal(paths: list[Path]) -> str:
    names = ", ".join(map(str, paths))
    if any(path.name in KEYS for path in paths):
        return f"{names} exist already; name another folder with --dir, or --force to keep the keys and write the rest anew"
    return f"{names} exists already; name another folder with --dir, or write it anew with --force"


def _told(
    folder: Path, file: Path, text: str, answers: "Answers", provider: "Provider | None", kept: dict[str, bool]
) -> str:
    from gateway.cli.beginning.text import variables

    typed = program()
    given = shlex.quote(str(file))
    keys = "\n".join(f"  {folder / name}{'  (kept)' if there else ''}" for name, there in kept.items())
    page = (provider.setup_guide_url or provider.docs) if provider else None
    where = f"at {provider.display_name}{f' ({page})' if page else ''}" if provider else "at each provider"
    needed = variables(text)
    if provider is None:
        declare = f"Declare an integration in {file}; `{typed} catalog list` shows the providers."
    elif needed:
        declare = f"Put into the environment what {provider.display_name} gives out: {', '.join(needed)}."
    else:
        declare = f"Nothing is to be registered for {provider.display_name}: its users bring their own credentials."
    return f"""Written, for you alone to read:
  {file}
{keys}

Register this callback address {where}:

{answers.public_url}/oauth/callback

Next:
  1. Back up {folder / "encryption_key"} apart from the database, and keep both keys out of version control.
  2. {declare}
  3. {typed} check -c {given}
  4. {typed} serve -c {given}
  5. {typed} doctor -c {given}   tells what would keep a user from connecting"""

"""``gateway init``: writes a new configuration, an encryption key and a secret key."""

import base64
import json
import os
import re
import secrets
import select
import shlex
import stat
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from gateway.cli.init_answers import DEFAULT_STORE, Answers, host_and_port
from gateway.cli.options import as_json
from gateway.cli.terminal import program

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog
    from gateway.catalog.provider import Provider

# ── New files that only their owner can read, from the first byte. Existing files are not replaced.


class FilesExist(Exception):
    """Some of the files exist already, so nothing was written. `paths`: the existing files."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(", ".join(map(str, paths)))
        self.paths = paths


def write_private(contents: Mapping[Path, str], *, replaceable: Path | Literal[False] = False) -> None:
    """Write all files of `contents`, each with mode 0600, or write none.

    `replaceable`: a file that may exist already and is then replaced atomically; False: every file must be new.

    Raises FilesExist with every other file that exists, and OSError. After an error, the files that were already
    written are deleted.
    """
    existing = [path for path in contents if os.path.lexists(path) and path != replaceable]
    if existing:
        raise FilesExist(existing)
    written_files: list[Path] = []
    try:
        for path, content in contents.items():
            target = path.with_name(f".{path.name}.new") if path == replaceable else path
            if path == replaceable:
                target.unlink(missing_ok=True)
            _create(target, content)
            written_files.append(target)
            if path == replaceable:
                target.replace(path)
                written_files.pop()
    except FileExistsError as error:
        _delete_written(written_files)
        raise FilesExist([Path(error.filename)]) from None
    except OSError:
        _delete_written(written_files)
        raise


def _create(path: Path, content: str) -> None:
    """Create the file and write `content`. Raises OSError, for example if the file exists.

    O_EXCL refuses links, and files that another process created meanwhile. After an error, no half-written file remains.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _delete_written(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


# ── The text of the new configuration file, with comments for the operator.

CONFIGURATION: Final = """\
# The configuration of an integration gateway. Every key and its default: docs/configuration.md. ${{NAME}} is read from
# the environment, ${{file:name}} from a file beside this one. To check this file: `gateway check`.
server:
  host: "{host}"                      # 0.0.0.0 listens on all addresses, as in a container
  port: {port}
  # The URL by which browsers reach this gateway. At each provider, register the callback URL
  # {callback_url}
  public_url: {public_url}
store:
  url: {store_url}
  encryption_keys: ["${{file:encryption_key}}"]    # needed to read stored credentials: back it up

environments:
  dev:
    secret_keys: ["${{file:secret_key}}"]          # your application sends it: Authorization: Bearer <secret key>
{webhook}{integrations}"""
NO_INTEGRATION: Final = """\
    integrations: {}
    # integrations:                      # one for each provider you use; `gateway catalog list` shows them
    #   jira:
    #     provider: jira
    #     client_id: ${JIRA_CLIENT_ID}
    #     client_secret: ${JIRA_CLIENT_SECRET}
    #     scopes: [read:jira-work, offline_access]
"""
DATABASE_URL: Final = "database_url"  # the file for the store's URL, if the URL contains a password


def configuration(answers: Answers, provider: "Provider | None") -> str:
    host, port = host_and_port(answers)
    url = answers.public_url
    return CONFIGURATION.format(
        host=host,
        port=port,
        public_url=url,
        callback_url=f"{url}/oauth/callback",
        store_url=_store_line(answers),
        webhook="" if answers.webhook_url is None else f"    webhook_url: {json.dumps(answers.webhook_url)}\n",
        integrations=_integrations_text(provider),
    )


def hides_password(answers: Answers) -> bool:
    """Return whether the store's URL contains a password. Such a URL is written to a separate file."""
    from gateway.config.exposed import LOGIN

    return bool(answers.store_url and "${" not in answers.store_url and LOGIN.search(answers.store_url))


def _store_line(answers: Answers) -> str:
    if hides_password(answers):
        return f'"${{file:{DATABASE_URL}}}"'
    url = answers.store_url or DEFAULT_STORE
    comment = "              # relative to this file" if url == DEFAULT_STORE else ""
    return f"{url if comment else json.dumps(url)}{comment}"


def _integrations_text(provider: "Provider | None") -> str:
    if provider is None:
        return NO_INTEGRATION
    from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat
    from gateway.pages.guide_steps import declaration

    declaration_text = declaration(provider, AUTH_MODES.get(provider.auth_mode, ModeFormat("")))
    return "".join(f"{line}\n" for line in declaration_text.splitlines()[2:])


def variables(text: str) -> list[str]:
    """Return the environment variables that a configuration refers to, in order of appearance."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return list(dict.fromkeys(name for line in lines for name in re.findall(r"\$\{([A-Za-z_]\w*)\}", line)))


KEYS = ("encryption_key", "secret_key")


@click.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The folder for the files; it is created if needed.  [default: the current folder]",
)
@click.option("--public-url", metavar="URL", help="The URL by which browsers will reach the gateway.")
@click.option("--host", metavar="ADDRESS", help="The address to listen on; 0.0.0.0 for all, as in a container.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="PORT", help="The port to listen on.")
@click.option(
    "--store-url", metavar="URL", help="sqlite:///FILE, or postgresql://user:password@host/database for several nodes."
)
@click.option("--provider", metavar="NAME", help="The first integration: an entry of the catalog.")
@click.option("--webhook-url", metavar="URL", help="The URL at which your application receives events.")
@click.option("-y", "--yes", is_flag=True, help="Do not prompt; use defaults for options that are not given.")
@click.option("--force", is_flag=True, help="Replace gateway.yaml. Existing keys are always kept.")
@as_json
def init(folder: Path, yes: bool, force: bool, as_json: bool, **options: "str | int | None") -> None:
    """Write gateway.yaml, encryption_key and secret_key, readable only by their owner.

    On a terminal, the command prompts for values that no option sets. It prints the callback URL to register at every
    provider, and the next steps. Existing files are not overwritten.
    """
    from dataclasses import replace

    from gateway.cli.init_answers import (
        DEFAULT_HOST,
        Answers,
        check_answers,
        default_url,
        find_entry,
        free_port,
        loopback_warning,
        port_warning,
        prompt_for_answers,
    )

    fallback_port = free_port(str(options["host"] or DEFAULT_HOST))
    answers = check_answers(Answers(**options, fallback_port=fallback_port), _catalog)  # type: ignore[arg-type]
    file = folder / "gateway.yaml"
    if not (yes or as_json) and has_piped_answers():
        raise click.UsageError(
            "Standard input is not read. Pass the answers as options (see `gateway init --help`), or use --yes for the "
            "defaults."
        )
    if not (yes or as_json) and is_terminal():
        # Existing files are checked before the prompts, so that no answer is lost.
        _refuse_existing([file, *(folder / name for name in KEYS)], force)
        answers = prompt_for_answers(answers, _catalog)
    answers = replace(answers, public_url=answers.public_url or default_url(answers))
    provider = find_entry(answers, _catalog)
    text = configuration(answers, provider)
    contents = {"encryption_key": _encryption_key(), "secret_key": _secret_key()}
    if hides_password(answers):
        contents[DATABASE_URL] = f"{answers.store_url}\n"
    names = list(contents)
    if force:
        contents = {name: content for name, content in contents.items() if not (folder / name).exists()}
    _write(folder, file, text, contents, force=force)
    warnings = [warning for warning in (port_warning(answers), loopback_warning(answers)) if warning]
    for warning in warnings:
        print(f"gateway: warning: {warning}", file=sys.stderr)
    if as_json:
        paths = {name: str(folder / name) for name in names}
        urls = {"public_url": answers.public_url, "callback_url": f"{answers.public_url}/oauth/callback"}
        print(
            json.dumps({"config": str(file), **paths, **urls, **({"warnings": warnings} if warnings else {})}, indent=2)
        )
    else:
        print(_report(folder, file, text, answers, provider, {name: name not in contents for name in names}))


def is_terminal() -> bool:
    """Return whether a person can answer prompts. Prompts go to stderr, so stdout is not checked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def has_piped_answers() -> bool:
    """Return whether standard input is a pipe or a file that contains data."""
    try:
        descriptor = sys.stdin.fileno()
        state = os.fstat(descriptor)
        if stat.S_ISREG(state.st_mode):
            return state.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(state.st_mode):
            return False
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return any(event & select.POLLIN for _, event in poller.poll(0))
    except (OSError, ValueError, AttributeError):  # standard input is closed or missing
        return False


@cache
def _catalog() -> "Catalog":
    """Return the shipped catalog. The first call reads the catalog, which happens only if the user names a provider."""
    from gateway.integrations.declared import catalog_of

    return catalog_of(None)


def _write(folder: Path, file: Path, text: str, contents: dict[str, str], *, force: bool) -> None:

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(
            {folder / name: content for name, content in contents.items()} | {file: text}, replaceable=force and file
        )
    except FilesExist as error:
        raise click.ClickException(_refusal(error.paths)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder} cannot be written: {error.strerror}") from None


def _encryption_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode() + "\n"


def _secret_key() -> str:
    from gateway.access.key_forms import mint

    return mint().reveal() + "\n"


def _refuse_existing(paths: list[Path], force: bool) -> None:
    existing = [] if force else [path for path in paths if path.exists()]
    if existing:
        raise click.ClickException(_refusal(existing))


def _refusal(paths: list[Path]) -> str:
    names = ", ".join(map(str, paths))
    if any(path.name in KEYS for path in paths):
        return f"{names} already exist. Give another folder with --dir, or --force to keep the keys and replace gateway.yaml"
    return f"{names} already exists. Give another folder with --dir, or --force to replace it"


def _report(
    folder: Path, file: Path, text: str, answers: "Answers", provider: "Provider | None", kept_files: dict[str, bool]
) -> str:

    program_name = program()
    path = shlex.quote(str(file))
    keys = "\n".join(f"  {folder / name}{'  (kept)' if is_kept else ''}" for name, is_kept in kept_files.items())
    page = (provider.setup_guide_url or provider.docs) if provider else None
    registration_place = f"at {provider.display_name}{f' ({page})' if page else ''}" if provider else "at each provider"
    variable_names = variables(text)
    if provider is None:
        declare = f"Declare an integration in {file}; `{program_name} catalog list` shows the providers."
    elif variable_names:
        declare = (
            f"Set these environment variables to the values from {provider.display_name}: {', '.join(variable_names)}."
        )
    else:
        declare = f"{provider.display_name} needs no client ID or secret: its users enter their own credentials."
    return f"""Written (readable only by you):
  {file}
{keys}

Register this callback URL {registration_place}:

{answers.public_url}/oauth/callback

Next:
  1. Back up {folder / "encryption_key"} apart from the database, and keep both keys out of version control.
  2. {declare}
  3. {program_name} check -c {path}
  4. {program_name} serve -c {path}
  5. {program_name} doctor -c {path}   finds problems that would keep a user from connecting"""

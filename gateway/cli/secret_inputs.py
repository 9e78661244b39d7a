"""Reads a command's secrets from an environment variable, a file or a prompt.

Secrets are never arguments, because every process of the machine can read arguments.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gateway.secret import Secret

MIN_PASSPHRASE_LENGTH = 12

passphrase_env = click.option("--passphrase-env", metavar="NAME", help="The environment variable with the passphrase.")
passphrase_file = click.option(
    "--passphrase-file", type=click.Path(path_type=Path), metavar="FILE", help="The file with the passphrase."
)
key_env = click.option(
    "--key-env", metavar="NAME", help="The environment variable with the other gateway's secret key."
)
key_file = click.option(
    "--key-file", type=click.Path(path_type=Path), metavar="FILE", help="The file with the other gateway's secret key."
)


def read_secret(name: str, option: str, env: str | None, file: Path | None) -> "Secret | None":
    """Return the secret from the variable `env` or from `file`; None if both are None.

    `name`: the secret's name in messages.
    `option`: the common prefix of both options, such as ``--key``. Raises UsageError if both are given, or if the
    secret is missing.
    """
    from gateway.secret import Secret

    if env is not None and file is not None:
        raise click.UsageError(f"Give {option}-env or {option}-file, not both.")
    if env is not None:
        text = os.environ.get(env, "").strip()
        if not text:
            raise click.UsageError(
                f"The variable {env[:64]} has no {name}. Set it with `read -rs {env[:64]}; export {env[:64]}`."
            )
        return Secret(text)
    if file is not None:
        try:
            text = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as fault:
            raise click.UsageError(f"{file} cannot be read: {fault}.") from None
        if not text:
            raise click.UsageError(f"{file} has no {name}.")
        return Secret(text)
    return None


def read_passphrase(env: str | None, file: Path | None, *, new: bool) -> "Secret":
    """Return the passphrase of a bundle: from an option, else from a prompt on the terminal.

    `new`: confirm the prompt, and refuse a short passphrase. Raises UsageError if the passphrase is missing, cannot be
    read or is too short.
    """
    from gateway.secret import Secret

    passphrase = read_secret("passphrase", "--passphrase", env, file)
    if passphrase is None:
        if not sys.stdin.isatty():
            raise click.UsageError("Give the passphrase with --passphrase-env NAME or --passphrase-file FILE.")
        passphrase = Secret(click.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True))
    if new and len(passphrase.reveal()) < MIN_PASSPHRASE_LENGTH:
        raise click.UsageError(
            f"The passphrase needs at least {MIN_PASSPHRASE_LENGTH} characters: only it protects the tokens in the file."
        )
    return passphrase

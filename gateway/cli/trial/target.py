"""Which running gateway is meant, and the key to it: as told, else as the configuration in reach says."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.cli.program import program
from gateway.cli.trial import TrialFailed
from gateway.secret import Secret

if TYPE_CHECKING:
    from gateway.config import Config

OWN: Final = Path("gateway.yaml")
DEMO: Final = Path(".gateway")
ANY_HOST: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, slots=True)
class Target:
    """`url` has no trailing slash. `key_file` holds the key and nothing else, where there is such a file.

    `start` is the command that would start this gateway; `key_from` says where the key was found.
    """

    url: str
    key: Secret
    start: str
    key_from: str
    key_file: Path | None = None


def find(file: Path | None, url: str | None, key: str | None, environment: str | None) -> Target:
    """What is told wins over what is found: `file`, else ``gateway.yaml`` here, else the demo's folder here.

    Raises TrialFailed, and Faults for a configuration of which nothing can be read.
    """
    if url is not None and key is not None:
        return Target(url.rstrip("/"), Secret(key), f"{program()} serve", "--key or GATEWAY_SECRET_KEY")
    found = file or _in_reach()
    if found is None:
        raise TrialFailed(
            f"no gateway is known here: {OWN} is not in this folder, and no {DEMO}/ that `{program()} demo` has made",
            f"start one with `{program()} demo` (or `make run`) and call again from the same folder;",
            "or name the configuration of one that runs with -c FILE, or its address with --url and --key",
        )
    return _configured(found, url, key, environment)


def _in_reach() -> Path | None:
    """A checkout's gateway.yaml is the reference of all keys, and nobody's own."""
    from gateway import resources

    if OWN.is_file() and not OWN.samefile(resources.file("gateway.yaml")):
        return OWN
    demo = DEMO / "gateway.yaml"
    return demo if demo.is_file() else None


def _configured(file: Path, url: str | None, key: str | None, environment: str | None) -> Target:
    from gateway.cli.demonstration.folder import DemoFolder

    config = _read(file)
    demo = DemoFolder(file.parent.absolute())
    by_demo = demo.address.is_file()
    start = f"{program()} demo" if by_demo else f"{program()} serve -c {file}"
    found = url or (demo.address.read_text().strip() if by_demo else None) or _listens(config)
    secret = Secret(key) if key is not None else _key(config, file, environment)
    beside = file.parent / "secret_key"
    holds_it = beside.is_file() and os.access(beside, os.R_OK) and beside.read_text().strip() == secret.reveal()
    told_by = "--key or GATEWAY_SECRET_KEY" if key is not None else str(file)
    return Target(found.rstrip("/"), secret, start, told_by, beside if holds_it else None)


def _read(file: Path) -> "Config":
    """As far as it can be read: the variables of a gateway that runs elsewhere need not be set in this terminal."""
    from gateway.config import Faults, load

    try:
        return load(file)
    except Faults as faults:
        if faults.readable is None:
            raise
        return faults.readable.config


def _listens(config: "Config") -> str:
    host = ANY_HOST.get(config.server.host, config.server.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{config.server.port}"


def _key(config: "Config", file: Path, named: str | None) -> Secret:
    there = config.environments
    if named is None and len(there) == 1:
        (named,) = there
    if named is None or named not in there:
        raise TrialFailed(
            f"{file} has the environments {', '.join(there) or '(none)'}; name one with --environment NAME"
        )
    keys = there[named].secret_keys
    if not keys:
        raise TrialFailed(
            f"the secret key of environment '{named}' cannot be read from {file}",
            "give it as GATEWAY_SECRET_KEY in the environment, or with --key",
        )
    return keys[0]

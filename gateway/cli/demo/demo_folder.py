"""The demo's folder: configuration, keys, the sandbox's catalog entry, and a lock that allows one demo at a time."""

import base64
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gateway import resources
from gateway.access.key_forms import mint
from gateway.cli.demo import DemoFailed
from gateway.secret import Secret

CLIENT_ID: Final = "gateway-demo"
PORT_VARIABLE: Final = "GATEWAY_DEMO_PORT"  # only configurations of earlier releases use this variable
SANDBOX_PORT_VARIABLE: Final = "GATEWAY_DEMO_SANDBOX_PORT"
DEFAULT_PORT: Final = 3003
DEFAULT_SANDBOX_PORT: Final = 3004
SHIPPED_ORIGIN: Final = f"http://127.0.0.1:{DEFAULT_SANDBOX_PORT}"

_CONFIGURATION: Final = f"""\
# Written by `gateway demo`. You may edit it: an existing file is not replaced.
server:
  port: "${{file:port}}"                   # written at every start, from --port, so that commands find the running gateway
store:
  url: sqlite:///gateway.db
  encryption_keys: ["${{file:encryption_key}}"]
catalog: [catalog]                       # sandbox.yaml has the URL of the sandbox; written at every start
environments:
  dev:
    secret_keys: ["${{file:secret_key}}"]
    connect_links_in_errors: true        # so that a call for a missing connection shows a link; false by default
    integrations:
      sandbox:
        provider: sandbox
        client_id: {CLIENT_ID}
        client_secret: "${{file:sandbox_client_secret}}"
        scopes: ["read:sandbox-user", "read:sandbox-work", "write:sandbox-work", "offline_access"]
console:
  enabled: true
egress:
  allow: ["127.0.0.1/32:${{file:sandbox_port}}"]    # the sandbox, and nothing else on this machine
"""


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The demo's folder. `path`: its absolute path. Only the owner of the folder can read its files."""

    path: Path

    @property
    def configuration(self) -> Path:
        return self.path / "gateway.yaml"

    @property
    def client_secret(self) -> Path:
        return self.path / "sandbox_client_secret"

    @property
    def sandbox_state(self) -> Path:
        return self.path / "sandbox.json"

    @property
    def url_file(self) -> Path:
        """The file with the URL of the running gateway, or of its last run. Other commands read it."""
        return self.path / "address"

    def write_url(self, url: str) -> None:
        self._write("address", url)

    def write_ports(self, port: int, sandbox_port: int) -> None:
        """Write the ports to the files from which the gateway and every command read them, through the configuration."""
        self._write("port", str(port))
        self._write("sandbox_port", str(sandbox_port))

    def _write(self, name: str, text: str) -> None:
        new_file = self.path / f".{name}.new"
        new_file.write_text(f"{text}\n")
        new_file.replace(self.path / name)

    def secret_key(self) -> Secret:
        """Return the application's secret key, read as the configuration reads it."""
        return Secret((self.path / "secret_key").read_text().removesuffix("\n"))

    def agent_key(self) -> Secret:
        """Return the agent's key from an earlier start; empty if there is none."""
        path = self.path / "agent_key"
        return Secret(path.read_text().removesuffix("\n") if path.exists() else "")

    def save_agent_key(self, key: Secret) -> None:
        if key != self.agent_key():
            (self.path / "agent_key").unlink(missing_ok=True)
            _write_if_missing(self.path / "agent_key", f"{key.reveal()}\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder until the end of the block. Create missing files.

        Raises DemoFailed, for example if another demo has locked the folder.
        """
        with self._lock():
            self._create_missing_files()
            yield

    def point_catalog_at(self, origin: str) -> None:
        """Write a copy of the shipped sandbox entry with the URL at which the sandbox listens.

        The copy overrides the shipped entry. `origin`: the sandbox's URL. Raises DemoFailed.
        """
        shipped_entry = (resources.folder("catalog") / "sandbox.yaml").read_text()
        if SHIPPED_ORIGIN not in shipped_entry:
            raise DemoFailed(f"the shipped catalog entry of the sandbox does not name {SHIPPED_ORIGIN}")
        (self.path / "catalog").mkdir(mode=0o700, exist_ok=True)
        new_file = self.path / "catalog" / ".sandbox.yaml.new"
        new_file.write_text(
            "# Written by `gateway demo` at every start.\n" + shipped_entry.replace(SHIPPED_ORIGIN, origin)
        )
        new_file.replace(self.path / "catalog" / "sandbox.yaml")

    def _lock(self) -> IO[str]:
        """Return the locked lock file. Raises DemoFailed.

        The lock is released when this file is closed, or when the process ends.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.fdopen(os.open(self.path / "demo.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
        except OSError as fault:
            raise DemoFailed(
                f"cannot use the demo's folder {self.path}: {fault.strerror}; choose another folder with --state"
            ) from fault
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            running_at = f" on {self.url_file.read_text().strip()}" if self.url_file.exists() else ""
            raise DemoFailed(
                f"the demo of {self.path} already runs{running_at}; end it with Ctrl-C in its terminal, or choose another folder "
                "with --state, and other ports with --port and --sandbox-port (0 picks a free port)"
            ) from None
        return lock

    def _create_missing_files(self) -> None:
        key_file, database_file = self.path / "encryption_key", self.path / "gateway.db"
        if database_file.exists() and not key_file.exists():
            raise DemoFailed(
                f"{key_file} is missing, and {database_file} cannot be read without it; restore the key, "
                f"or start from scratch: remove {self.path}, or use another --state"
            )
        _write_if_missing(key_file, base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
        _write_if_missing(self.path / "secret_key", mint().reveal() + "\n")
        _write_if_missing(self.client_secret, secrets.token_urlsafe(32) + "\n")
        for name, default in (("port", DEFAULT_PORT), ("sandbox_port", DEFAULT_SANDBOX_PORT)):
            # The default ports stay in these files until `write_ports` writes the actual ports.
            _write_if_missing(self.path / name, f"{default}\n")
        _write_if_missing(self.configuration, _CONFIGURATION)


def _write_if_missing(path: Path, text: str) -> None:
    """Write a new file that only its owner can read, from the first byte. Keep an existing file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(text)

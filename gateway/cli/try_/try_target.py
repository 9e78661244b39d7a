"""Finds the gateway, key, connection and path that the user does not name on the command line."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.cli.terminal import program
from gateway.cli.try_ import TrialFailed
from gateway.client import Client
from gateway.origin import local_url
from gateway.secret import Secret

if TYPE_CHECKING:
    from gateway.config import Config

# ── The running gateway and its key: from the options, otherwise from a configuration.

OWN_CONFIGURATION: Final = Path("gateway.yaml")
DEMO_FOLDER: Final = Path(".gateway")


@dataclass(frozen=True, slots=True)
class TargetGateway:
    """The gateway to call.

    `url`: the gateway's URL without a trailing slash.
    `start_command`: the command that would start this gateway.
    `key_source`: where the key was found, for messages.
    `key_file`: a file that contains only the key; None if there is no such file.
    `file`: the gateway's configuration; None if the user gave URL and key.
    """

    url: str
    key: Secret
    start_command: str
    key_source: str
    key_file: Path | None = None
    file: Path | None = None


def find_target(file: Path | None, url: str | None, key: str | None, environment: str | None) -> TargetGateway:
    """Return the gateway and the key to use.

    Values that the user does not give come from `file`, otherwise from ``gateway.yaml`` in the current folder, otherwise
    from the demo's folder. Raises TrialFailed, and Faults if nothing of the configuration can be read.
    """
    if url is not None and key is not None:
        return TargetGateway(url.rstrip("/"), Secret(key), f"{program()} serve", "--key or GATEWAY_SECRET_KEY")
    config_file = file or _local_configuration()
    if config_file is None:
        raise TrialFailed(
            f"no gateway found: this folder has neither {OWN_CONFIGURATION} nor a folder {DEMO_FOLDER}/ of `{program()} demo`",
            f"start one with `{program()} demo` (or `make run`), and run the command again in the same folder;",
            "or name the configuration of a running gateway with -c FILE, or give --url and --key",
        )
    return _configured_target(config_file, url, key, environment)


def _local_configuration() -> Path | None:
    """Return the configuration in the current folder or in the demo's folder; None if there is none.

    The shipped gateway.yaml in a checkout is ignored, because that file is only a reference of all settings.
    """
    from gateway import resources

    if OWN_CONFIGURATION.is_file() and not OWN_CONFIGURATION.samefile(resources.file("gateway.yaml")):
        return OWN_CONFIGURATION
    demo = DEMO_FOLDER / "gateway.yaml"
    return demo if demo.is_file() else None


def _configured_target(file: Path, url: str | None, key: str | None, environment: str | None) -> TargetGateway:
    from gateway.cli.demo.demo_folder import DemoFolder

    config = _read(file)
    demo = DemoFolder(file.parent.absolute())
    demo_has_run = demo.url_file.is_file()
    start_command = f"{program()} demo" if demo_has_run else f"{program()} serve -c {file}"
    gateway_url = (
        url
        or (demo.url_file.read_text().strip() if demo_has_run else None)
        or local_url(config.server.host, config.server.port)
    )
    secret = Secret(key) if key is not None else _key(config, file, environment)
    secret_file = file.parent / "secret_key"
    has_only_key = (
        secret_file.is_file() and os.access(secret_file, os.R_OK) and secret_file.read_text().strip() == secret.reveal()
    )
    key_source = "--key or GATEWAY_SECRET_KEY" if key is not None else str(file)
    return TargetGateway(
        gateway_url.rstrip("/"), secret, start_command, key_source, secret_file if has_only_key else None, file
    )


def _read(file: Path) -> "Config":
    """Read as much of the configuration as possible.

    The configuration refers to environment variables, which might be missing in this terminal.
    """
    from gateway.config import Faults, load

    try:
        return load(file)
    except Faults as faults:
        if faults.readable is None:
            raise
        return faults.readable.config


def _key(config: "Config", file: Path, environment: str | None) -> Secret:
    environments = config.environments
    if environment is None and len(environments) == 1:
        (environment,) = environments
    if environment is None or environment not in environments:
        raise TrialFailed(
            f"{file} has the environments {', '.join(environments) or '(none)'}; name one with --environment NAME"
        )
    keys = environments[environment].secret_keys
    if not keys:
        raise TrialFailed(
            f"the secret key of environment '{environment}' cannot be read from {file}",
            "pass it in the environment variable GATEWAY_SECRET_KEY, or with --key",
        )
    return keys[0]


# ── Defaults: the newest connection, and the path that the provider's entry uses to verify a credential.

# Matches references to settings of the connection: ``{cloudId}`` and ``${connectionConfig.cloudId}``.
_SETTING: Final = re.compile(r"\$?\{(?:connectionConfig\.)?([A-Za-z_][\w.-]*)\}")


UNKNOWN: Final = "none"  # the connection of an integration that does not exist


@dataclass(frozen=True, slots=True)
class ConnectionPath:
    """A connection, and a path of its provider's API."""

    integration: str
    connection: str
    path: str


def resolve(client: Client, integration: str | None, connection: str | None, path: str | None) -> ConnectionPath:
    """Return integration, connection and path, with defaults for those that are None.

    Raises GatewayError if the gateway refuses a request, and TrialFailed if there is no connection.
    """
    if integration is None or connection is None:
        integration, connection = _newest_connection(client, integration)
    if path is None:
        path = _verification_path(client, integration)
    elif path.startswith(("https://", "http://")):
        path = _path_below_base(client, integration, path)
    call_path = ConnectionPath(integration, connection, path)
    return replace(call_path, path=_fill_settings(client, call_path)) if _SETTING.search(call_path.path) else call_path


def _newest_connection(client: Client, integration: str | None) -> tuple[str, str]:
    known_ids = [integration["unique_key"] for integration in client.list_integrations()]
    if integration is not None and integration not in known_ids:
        return integration, UNKNOWN  # the gateway will refuse the call, and `refused_call` will explain why
    filters = {} if integration is None else {"integrations": [integration]}
    for connection in client.list_connections(**filters):  # type: ignore[arg-type]
        return connection["provider_config_key"], connection["connection_id"]
    scope = f"integration '{integration}'" if integration else "this environment"
    if not known_ids:
        raise TrialFailed("no integration is configured", "declare one in gateway.yaml, under environments")
    allowed_integrations = [integration] if integration else known_ids
    link = client.create_connect_session(end_user={"id": "gateway-try"}, allowed_integrations=allowed_integrations)[
        "connect_link"
    ]
    raise TrialFailed(
        f"{scope} has no connection yet", "open this link to create a connection (valid for 30 minutes):", link
    )


def _verification_path(client: Client, integration: str) -> str:
    """Return the path that the provider's entry uses to verify a credential; ``/`` without such a path."""
    verification: Mapping[str, Any] = _proxy_settings(client, integration).get("verification") or {}
    if verification.get("method", "GET") == "GET" and "base_url_override" not in verification:
        return str(next(iter(verification.get("endpoints", ())), "/"))
    return "/"


def _path_below_base(client: Client, integration: str, url: str) -> str:
    """Return the path of an absolute API URL, without the base URL, which the gateway adds.

    Raises TrialFailed if `url` does not begin with the base URL.
    """
    base = str(_proxy_settings(client, integration).get("base_url", ""))
    path = url.removeprefix(base)
    if path != url and path[:1] in ("", "/", "?"):
        return path or "/"
    raise TrialFailed(
        f"PATH must be below the provider's base URL, which is {base or 'unknown'} for '{integration}'",
        "for another URL that the entry or the integration allows, give -H 'Base-Url-Override: https://…' and the path",
    )


def _proxy_settings(client: Client, integration: str) -> Mapping[str, Any]:
    """Return the proxy settings of the integration's provider; empty if the integration is unknown."""
    for listed_integration in client.list_integrations():
        if listed_integration["unique_key"] == integration:
            proxy: Mapping[str, Any] = client.get_provider(listed_integration["provider"])["proxy"]
            return proxy
    return {}


def _fill_settings(client: Client, call_path: ConnectionPath) -> str:
    config = client.get_connection(call_path.integration, call_path.connection)["connection_config"]

    def value(match: re.Match[str]) -> str:
        if match[1] not in config:
            known_settings = ", ".join(sorted(config)) or "none"
            raise TrialFailed(
                f"the connection has no setting '{match[1]}' for {match[0]}; its settings: {known_settings}"
            )
        return str(config[match[1]])

    return _SETTING.sub(value, call_path.path)

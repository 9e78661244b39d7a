"""``gateway check``: reports faults and warnings of a configuration and its catalog.

The command does not start the gateway.
"""

import json
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from gateway.catalog.url_template import UrlTemplate, parse_url_template
from gateway.cli.options import as_json, config_file
from gateway.cli.terminal import ReportedFault, fault_json, hint_at_init
from gateway.config import Fault
from gateway.egress.guard import ip_address_in
from gateway.origin import DEFAULT_PORTS
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog
    from gateway.config import Config, EnvironmentConfig
    from gateway.egress.guard import Guard
    from gateway.records.integration import Integration

# ── Checks of a configuration that can be loaded. The checks find settings that `gateway serve` refuses, that have no
# effect, or that are probably mistakes.

_UNBRACED: Final = re.compile(r"\$[A-Z_][A-Z0-9_]*")
_UNBRACED_WARNING: Final = (
    "the value is not filled in from the environment: write the variable's name in braces, as in ${NAME}"
)
# authorization_url is not in this list: browsers open this URL, and the gateway does not call it.
_URL_FIELDS: Final = ("token_url", "refresh_url", "base_url")


RENAMED_WARNING: Final = (
    "request_log is renamed to call_log, and max_rows is replaced by max_bytes; the old settings still work"
)


def start_faults(config: "Config") -> Iterator[Fault]:
    """Yield the faults that would stop `gateway serve` at its start, with the same messages."""
    from gateway.store.preflight import check_url
    from gateway.store.preflight_checks import StoreRefused

    try:
        check_url(config.store.url)
    except StoreRefused as refusal:
        yield Fault(config.file_and_line("store", "url"), str(refusal))


def store_warnings(config: "Config") -> Iterator[Fault]:
    """Yield a warning if `gateway serve` would not start on this machine, because the store's folder is missing.

    It is no fault, because the file can be checked on another machine. `gateway doctor` opens the store instead.
    """
    from gateway.store.preflight import check_folder_exists
    from gateway.store.preflight_checks import StoreRefused

    try:
        check_folder_exists(config.store)
    except StoreRefused as refusal:
        yield Fault(
            config.file_and_line("store", "url"), f"{refusal} Until then, the gateway does not start on this machine."
        )


def client_warnings(config: "Config") -> Iterator[Fault]:
    """Yield a warning for each client ID and secret that looks like a placeholder or a copying mistake.

    The gateway starts with such values, but the provider will refuse the client. `gateway doctor` checks these values
    itself, and does not call this function.
    """
    from gateway.integrations.client_mistakes import client_mistakes

    for environment in config.environments.values():
        for key, integration in environment.integrations.items():
            place = ("environments", environment.name, "integrations", key)
            for name, mistake in client_mistakes(integration):
                yield Fault(config.file_and_line(*place, name), f"{name} of integration '{key}' {mistake}")


def configuration_warnings(config: "Config", catalog: "Catalog") -> Iterator[Fault]:
    """Yield a warning for each allowed setting that has no effect or is probably a mistake."""
    from gateway.config.store_url import is_unverified_remote
    from gateway.egress.guard import Guard
    from gateway.vault import Keyring
    from gateway.vault.seal import REPLACE_KEY_ADVICE

    guard = Guard(config.egress.allow)
    if is_unverified_remote(config.store.url):
        location = config.file_and_line("store", "url")
        yield Fault(location, "store.url does not verify the database server's certificate: add ?sslmode=verify-full")
    yield from _server_warnings(config)
    for number, weakness in Keyring(config.store.encryption_keys).weaknesses.items():
        location = config.file_and_line("store", "encryption_keys", str(number))
        yield Fault(location, f"encryption key {number + 1} {weakness}: {REPLACE_KEY_ADVICE}")
    for environment in config.environments.values():
        yield from _environment_warnings(config, environment, guard)
        for key, integration in environment.integrations.items():
            place = ("environments", environment.name, "integrations", key)
            yield from _integration_warnings(config, place, integration, guard)
            yield from _provider_url_warnings(config, place, integration, catalog, guard)
            yield from _sunset_warnings(config, place, integration, catalog)
            if environment.webhook_url is not None or integration.allow_unsigned_webhooks:
                yield from _webhook_warnings(config, place, integration, catalog)
    yield from (
        Fault(config.file_and_line(*place), _UNBRACED_WARNING) for place in _unbraced_references(config.document.tree)
    )
    if "request_log" in config.document.tree:
        yield Fault(config.file_and_line("request_log"), RENAMED_WARNING)
    if not config.environments:
        yield Fault(
            config.file_and_line("environments"),
            "no environment is declared, so every call is refused: add one under environments",
        )
    for index, network in enumerate(config.egress.allow):
        if network.network.prefixlen == 0:
            location = config.file_and_line("egress", "allow", str(index))
            yield Fault(
                location,
                f"{network.network} lets providers direct calls to any private address; allow only the networks you need",
            )


def _server_warnings(config: "Config") -> Iterator[Fault]:
    from gateway.config.exposed import open_port_warning

    if config.server.admin_port is not None:
        warning = open_port_warning(config.server, config.server.metrics_host)
        if warning is not None:
            yield Fault(config.file_and_line("server", "admin_port"), f"{warning.message}: {warning.fix}")
    if 0 < config.server.drain_s <= config.server.notice_s:
        yield Fault(
            config.file_and_line("server", "notice_s"),
            "server.notice_s is not less than server.drain_s: requests that begin during the notice can be cut at its end; "
            "raise drain_s",
        )


def _unbraced_references(value: object, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of each value such as ``$NAME``, which a shell would fill in and the gateway does not."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _unbraced_references(member, (*place, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _unbraced_references(member, (*place, str(index)))
    elif isinstance(value, str) and _UNBRACED.fullmatch(value):
        yield place


def _environment_warnings(config: "Config", environment: "EnvironmentConfig", guard: "Guard") -> Iterator[Fault]:
    place = ("environments", environment.name)
    if not environment.secret_keys:
        yield Fault(
            config.file_and_line(*place),
            f"environment '{environment.name}' has no secret key, so every call to it is refused",
        )
    for key in ("webhook_url", "webhook_url_secondary"):
        url = getattr(environment, key)
        parts = urlsplit(url or "")
        if url and (refusal := _egress_refusal(guard, parts.scheme, parts.hostname or "", parts.port)):
            yield Fault(config.file_and_line(*place, key), f"events cannot be sent to this URL: {refusal}")
        elif parts.scheme == "http" and _may_be_public(parts.hostname or ""):
            yield Fault(
                config.file_and_line(*place, key),
                f"events to http://{parts.hostname} are refused unless its IP address is in egress.allow; use https",
            )


def _integration_warnings(
    config: "Config", place: tuple[str, ...], integration: "Integration", guard: "Guard"
) -> Iterator[Fault]:
    for index, origin in enumerate(integration.allowed_origins):
        parts = urlsplit(origin)
        if refusal := _egress_refusal(guard, parts.scheme, parts.hostname or "", parts.port):
            location = config.file_and_line(*place, "allowed_origins", str(index))
            yield Fault(location, f"{origin} cannot be called: {refusal}")


def _webhook_warnings(
    config: "Config", place: tuple[str, ...], integration: "Integration", catalog: "Catalog"
) -> Iterator[Fault]:
    from gateway.events.receive import accepts_webhooks, verification_secrets

    provider = catalog.get(integration.provider)
    if provider is None or not integration.forward_webhooks:
        return
    own_secrets = tuple(
        secret for secret in (integration.webhook_secret, integration.webhook_secret_previous) if secret
    )
    secrets = verification_secrets(provider, own_secrets, integration.client_secret)
    if integration.allow_unsigned_webhooks:
        location = config.file_and_line(*place, "allow_unsigned_webhooks")
        if secrets:
            yield Fault(location, "allow_unsigned_webhooks has no effect: a secret is set, so webhooks must be signed")
        else:
            yield Fault(location, "allow_unsigned_webhooks: anybody who knows the webhook URL can forge events")
    elif accepts_webhooks(provider) and not secrets:
        yield Fault(
            config.file_and_line(*place),
            f"webhooks of provider '{provider.name}' are refused with 401: set webhook_secret, or forward_webhooks: false",
        )


def _sunset_warnings(
    config: "Config", place: tuple[str, ...], integration: "Integration", catalog: "Catalog"
) -> Iterator[Fault]:
    provider = catalog.get(integration.provider)
    if provider is not None and provider.sunset is not None:
        yield Fault(config.file_and_line(*place), f"provider '{provider.name}' {provider.sunset.sentence()}")


def _provider_url_warnings(
    config: "Config", place: tuple[str, ...], integration: "Integration", catalog: "Catalog", guard: "Guard"
) -> Iterator[Fault]:
    """Yield a warning for each URL of the provider's entry that egress would refuse.

    URLs with a host or port that end users fill in are skipped. No name is resolved, so a name that resolves to a private
    address is not found here: egress refuses it when it connects.
    """
    provider = catalog.get(integration.provider)
    if provider is None:
        return
    for key in _URL_FIELDS:
        template = provider.proxy.base_url if key == "base_url" else getattr(provider, key)
        if template is None:
            continue
        url = parse_url_template(template)
        if not _is_literal(url):
            continue
        host = "".join(map(str, url.host))
        port = int(str(url.port)) if url.port else None
        if refusal := _egress_refusal(guard, url.scheme, host.strip("[]"), port):
            yield Fault(
                config.file_and_line(*place), f"the {key} of provider '{provider.name}' cannot be called: {refusal}"
            )


def _is_literal(url: UrlTemplate) -> bool:
    return url.whole_base_url is None and all(isinstance(piece, str) for piece in (*url.host, url.port or ""))


def _may_be_public(host: str) -> bool:
    """Return whether DNS could resolve `host` to a public address.

    False for an IP address, and for names that only private networks use.
    """
    if ip_address_in(host) is not None or "." not in host:
        return False
    return not host.endswith((".internal", ".local", ".localhost", ".lan", ".home.arpa", ".svc", ".test"))


def _egress_refusal(guard: "Guard", scheme: str, host: str, port: int | None) -> str | None:
    """Return why egress would refuse to connect to `host`; None if nothing forbids it before the name is resolved."""
    from gateway.egress.egress_errors import EgressError

    if host == "localhost" or host.endswith(".localhost"):
        host = "127.0.0.1"
    try:
        guard.check("http" if scheme == "http" else "https", host, port or DEFAULT_PORTS[scheme])
    except EgressError as refusal:
        return str(refusal)
    return None


# ── The command.


@click.command()
@config_file
@as_json
def check(file: Path, as_json: bool) -> None:
    """Check FILE and the catalog that it uses. Print a line for each fault and exit 1, or print a summary and exit 0.

    The command starts nothing, opens no database and no network connection, and writes nothing.
    """
    config, faults, warnings = examine(file)
    if config is not None:
        warnings = [*warnings, *store_warnings(config), *client_warnings(config)]
    if as_json:
        print(json.dumps(_report(config, faults, warnings), indent=2))
    else:
        for fault in faults:
            print(f"{fault.where}: {fault.message}", file=sys.stderr)
        if faults:
            hint_at_init(file)
        for warning in warnings:
            print(f"{warning.where}: warning: {warning.message}", file=sys.stderr)
        if config and not faults:
            print("\n".join(_summary(config, file, len(warnings))))
    sys.exit(1 if faults else 0)


def examine(file: Path) -> "tuple[Config | None, Sequence[ReportedFault], Sequence[ReportedFault]]":
    """Return the configuration, the faults that prevent a start, and the warnings.

    The configuration is None if there is a fault.
    """
    from gateway.config import Faults, load
    from gateway.integrations.declared import examine_catalog

    read_faults: list[ReportedFault] = []
    left_out: Collection[tuple[str, ...]] = ()
    try:
        config = load(file)
    except Faults as error:
        read_faults = [*error.faults]
        if error.readable is None:
            return None, read_faults, ()
        config, left_out = error.readable.config, error.readable.left_out
    examination = examine_catalog(config, left_out)
    faults = [*read_faults, *start_faults(config), *examination.faults]
    if faults:
        return None, faults, examination.warnings
    return config, (), [*examination.warnings, *configuration_warnings(config, examination.catalog)]


def _summary(config: "Config", file: Path, warning_count: int) -> Iterator[str]:
    if warning_count:
        yield f"{file} is valid, with {counted(warning_count, 'warning')} above"
    else:
        yield f"{file} is valid"
    yield f"  callback URL      {config.callback_url}"
    yield f"  listens on        {config.server.host}, port {config.server.port}"
    yield f"  store             {_without_password(config.store.url)}"
    for name, environment in config.environments.items():
        names = ", ".join(environment.integrations) or "no integration declared"
        keys = len(environment.secret_keys)
        yield f"  environment       {name}: {counted(keys, 'secret key')}; {names}"


def _report(
    config: "Config | None", faults: Sequence[ReportedFault], warnings: Sequence[ReportedFault]
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "ok": not faults,
        "faults": [fault_json(fault) for fault in faults],
        "warnings": [fault_json(warning) for warning in warnings],
    }
    if config and not faults:
        report |= {
            "callback_url": config.callback_url,
            "public_url": config.server.public_url,
            "store": _without_password(config.store.url),
            "environments": {
                name: sorted(environment.integrations) for name, environment in config.environments.items()
            },
        }
    return report


def _without_password(url: str) -> str:
    """Return the store's URL without user, password and query."""
    scheme, _, after_scheme = url.partition("://")
    return url if scheme == "sqlite" else f"{scheme}://{after_scheme.rpartition('@')[2].partition('?')[0]}"

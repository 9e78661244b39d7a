"""Builds a `Config` from gateway.yaml: checks types, checks rules across keys, and reports all faults together."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config import model, store_url
from gateway.config.config_shape import (
    SECTIONS,
    ConsoleShape,
    EnvironmentShape,
    GatewayShape,
    Section,
    ServerShape,
)
from gateway.config.document import ConfigDocument, Faults, Finding, Readable, from_mapping, read_file
from gateway.config.substitution import Substitution, substitute
from gateway.config.values import is_loopback
from gateway.documents.pydantic_messages import pydantic_message
from gateway.documents.read_document import Place
from gateway.observe.masking import is_secret
from gateway.records.integration import Integration
from gateway.secret import Secret
from gateway.text import did_you_mean

# ── From plain values to a `GatewayShape`, which has all valid values. Pydantic's faults get the gateway's own messages.

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")


# For these types of faults, the message shows a value that looks like a number, with or without a unit, or that is a word
# of at most 8 letters. At the places in _NETWORKS, it shows a value that looks like a network or a host. Other texts are
# never shown, because they could be misplaced secrets.
_FAULTS_WITH_VALUE: Final = re.compile(r"(int|float|bool)_|literal_error|greater_than|less_than")
_UNITS: Final = {"s": "seconds", "ms": "milliseconds", "days": "days", "hours": "hours", "bytes": "bytes"}
MAX_SHOWN_CHARS: Final = 24
_UNKNOWN_KEY: Final = ("is not a known key", "is not known here")
_SHOWN: Final = re.compile(r"[-+]?[0-9]{1,10}([.,][0-9]{1,3})? ?[A-Za-z%]{0,7}|[A-Za-z]{1,8}")
_NETWORKS: Final = (("egress", "allow"), ("console", "identity_headers", "trusted_proxies"))
_SHOWN_NETWORK_PART: Final = re.compile(r"[0-9A-Fa-f]{0,5}|[a-z-]{0,15}")


def read_shape(
    tree: dict[str, Any], faulty: set[Place], references: Collection[Place] = ()
) -> tuple[GatewayShape, list[Finding]]:
    """Return the valid part of `tree` as a `GatewayShape`, and the faults.

    `faulty`: places whose faults are known already; the values at these places are left out. `references`: places with
    a value from outside the file; messages do not show such values.
    """
    findings: list[Finding] = []
    faulty_places = set(faulty)
    valid_tree = tree
    while True:
        valid_tree = _copy_without(valid_tree, faulty_places)
        try:
            return GatewayShape.model_validate(valid_tree), findings
        except ValidationError as errors:
            new_findings = [_finding(error, references) for error in errors.errors(include_url=False)]
        faulty_places = {place for place, _ in new_findings}
        findings += (finding for _, finding in new_findings)


def _finding(error: ErrorDetails, references: Collection[Place]) -> tuple[Place, Finding]:
    """Return the place of a pydantic error, and the fault."""
    place = tuple(str(step) for step in error["loc"] if step != "[key]")
    if error["type"] == "extra_forbidden":
        if not _WORD.fullmatch(place[-1]):
            return place, Finding(
                place, "has a key that is not a single word; is the ':' after it missing?", unnamed=True
            )
        return place, Finding(place, _unknown_key(place))
    if error["loc"][-1:] == ("[key]",):
        return place, Finding(place, _bad_name(place))
    message = pydantic_message(error, "yaml")
    if place not in references and not is_secret(place[-1]):
        if _FAULTS_WITH_VALUE.match(error["type"]):
            message += _unit(error["type"], place[-1]) + _shown_value(error["input"])
        elif error["type"] == "value_error" and place[:-1] in _NETWORKS:
            message += _shown_network(str(error["input"]))
    return place, Finding(place, message)


def _unit(kind: str, key: str) -> str:
    unit = _UNITS.get(key.rpartition("_")[2]) if "_" in key else None
    return f" of {unit}" if unit and kind.startswith(("int_", "float_")) and kind != "int_parsing_size" else ""


def _shown_value(value: object) -> str:
    """Return the end of a message, such as ``, not '10s'``. Return an empty text if `value` must not be shown."""
    if isinstance(value, int) and abs(value) >= 10**MAX_SHOWN_CHARS:  # `repr` raises ValueError above 4,300 digits
        return ""
    if isinstance(value, list | dict):
        return ", not a list" if isinstance(value, list) else ", not a mapping"
    is_shown = isinstance(value, int | float) or (isinstance(value, str) and _SHOWN.fullmatch(value))
    return f", not {value!r}" if is_shown and len(repr(value)) <= MAX_SHOWN_CHARS else ""


def _shown_network(text: str) -> str:
    """Return the end of a message, such as ``, not '10.0.0.300'``, or an empty text if `text` must not be shown."""
    is_shown = len(text) <= 64 and all(map(_SHOWN_NETWORK_PART.fullmatch, re.split(r"[.:/\[\]]", text)))
    return f", not {text!r}" if is_shown else ""


def _bad_name(place: Place) -> str:
    if place[2:3] == ("variables",):
        return "a variable's name begins with a letter or '_' and has letters, digits and '_' only, at most 255"
    if len(place) == 2:
        return "an environment's name is made of a-z, 0-9, '_' and '-', at most 255"
    return "an integration's name is made of letters, digits, spaces and ~ : . @ _ -, at most 255"


def _unknown_key(place: Place) -> str:
    section, key = _section(place[:-1]), place[-1]
    section_names = [
        ".".join(path).replace("*", "<name>") for path, shape in SECTIONS.items() if key in shape.model_fields and path
    ]
    if section_names:
        return f"is not known here; it belongs under {' or '.join(section_names)}"
    if suggestion := did_you_mean(key, section.model_fields):
        return f"is not a known key{suggestion}"
    return f"is not a known key; known here: {', '.join(section.model_fields)}"


def _section(place: Place) -> type[Section]:
    """Return the class that defines the keys of the configuration below the path `place`."""
    if place in SECTIONS:
        return SECTIONS[place]
    return SECTIONS[tuple("*" if index in (1, 3) else step for index, step in enumerate(place))]


def _copy_without(tree: Any, places: set[Place]) -> Any:
    """Return a copy of `tree` without `places`. Removed list items become null, so that other indices stay valid."""
    if () in places:
        return None
    places_by_key: dict[str, set[Place]] = {}
    for place in places:
        places_by_key.setdefault(place[0], set()).add(place[1:])
    if isinstance(tree, dict):
        return {
            key: _copy_without(value, places_by_key.get(key, set()))
            for key, value in tree.items()
            if () not in places_by_key.get(key, ())
        }
    if isinstance(tree, list):
        return [_copy_without(value, places_by_key.get(str(index), set())) for index, value in enumerate(tree)]
    return tree


# ── Rules across keys, and required keys.

LOGO_TYPES: Final = (".svg", ".png", ".webp", ".jpg", ".jpeg")
MAX_LOGO_BYTES: Final = 256 << 10


def broken_rules(shape: GatewayShape, base: Path, faulty: set[Place]) -> Iterator[Finding]:
    """Yield a fault for each rule that several settings break together, although each value alone is valid.

    `faulty`: places whose faults are known already, and which are not checked again.
    """
    yield from _server(shape.server, faulty)
    yield from _store(shape, faulty)
    yield from _catalog(shape, base)
    yield from _secret_keys(shape.environments)
    yield from _logo(shape, base)
    yield from _console(shape.console, faulty)
    yield from _console_port(shape, faulty)


def _server(server: ServerShape, faulty: set[Place]) -> Iterator[Finding]:
    url = ("server", "public_url")
    if server.public_url is None and url not in faulty and not is_loopback(server.host):
        yield Finding(
            url,
            f"is required since server.host ({server.host}) is not loopback: "
            "the https URL at which browsers reach this gateway",
        )
    if server.admin_port and server.admin_port == server.port:
        yield Finding(("server", "admin_port"), "is the same as server.port; metrics need a port of their own")


def _console_port(shape: GatewayShape, faulty: set[Place]) -> Iterator[Finding]:
    console, server = shape.console, shape.server
    if console.port is None:
        if console.host is not None:
            yield Finding(("console", "host"), "is where console.port listens, so it needs console.port too")
        return
    if console.port and console.port in (server.port, server.admin_port):
        other_setting = "server.port" if console.port == server.port else "server.admin_port"
        yield Finding(("console", "port"), f"is the same as {other_setting}; the console needs a port of its own")
    host, url = console.host or server.host, ("console", "public_url")
    if console.public_url is None and url not in faulty and not is_loopback(host):
        yield Finding(url, f"is required since console.port listens on {host}: the https URL of the console")


def _store(shape: GatewayShape, faulty: set[Place]) -> Iterator[Finding]:
    place = ("store", "encryption_keys")
    is_reported = any(fault == place[: len(fault)] or fault[:2] == place for fault in faulty)
    if not is_reported and not any(shape.store.encryption_keys):
        yield Finding(
            place,
            'is required: base64 of 32 random bytes, such as ["${GATEWAY_ENCRYPTION_KEY}"] or '
            '["${file:encryption_key}"]; `gateway init` makes one',
        )


def _catalog(shape: GatewayShape, base: Path) -> Iterator[Finding]:
    for index, folder in enumerate(shape.catalog):
        if folder is None:
            continue
        place, status = ("catalog", str(index)), _stat(base / folder)
        if status is None:
            yield Finding(place, f"there is no folder {base / folder}".replace("\0", "?"))
        elif not stat.S_ISDIR(status.st_mode):
            yield Finding(place, f"{base / folder} is not a folder")


def _stat(path: Path) -> os.stat_result | None:
    """Return the status of the file; None if it does not exist, its name is invalid, or its folder is unreadable."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _secret_keys(environments: Mapping[str, EnvironmentShape]) -> Iterator[Finding]:
    """Yield a fault for each secret key that two environments share, because a key must identify one environment."""
    owners: dict[Secret, str] = {}
    for name, environment in environments.items():
        for index, key in enumerate(environment.secret_keys):
            if key is None:
                continue
            owner = owners.setdefault(key, name)
            if owner != name:
                place = ("environments", name, "secret_keys", str(index))
                yield Finding(place, f"is also a secret key of environment '{owner}'; each environment needs its own")


def _logo(shape: GatewayShape, base: Path) -> Iterator[Finding]:
    logo_path = shape.branding.logo
    if logo_path is None:
        return
    place, path = ("branding", "logo"), base / logo_path
    status = _stat(path)
    if path.suffix.lower() not in LOGO_TYPES:
        yield Finding(place, f"must be a file that ends in {', '.join(LOGO_TYPES)}")
    elif status is None or not stat.S_ISREG(status.st_mode):
        yield Finding(place, f"there is no file {path}".replace("\0", "?"))
    elif status.st_size > MAX_LOGO_BYTES:
        yield Finding(place, f"is larger than {MAX_LOGO_BYTES >> 10} KiB")


def _console(console: ConsoleShape, faulty: set[Place]) -> Iterator[Finding]:
    oidc, proxies = console.oidc, [proxy for proxy in console.identity_headers.trusted_proxies if proxy is not None]
    if oidc.issuer is not None and oidc.client_id is None and ("console", "oidc", "client_id") not in faulty:
        yield Finding(("console", "oidc", "client_id"), "is required: register the gateway at the identity provider")
    if oidc.issuer is not None and "openid" not in oidc.scopes:
        yield Finding(("console", "oidc", "scopes"), "must contain openid")
    if (oidc.issuer is not None or proxies) and not (any(console.operators) or any(console.viewers)):
        yield Finding(("console", "operators"), "or console.viewers must name a group: without one nobody can sign in")
    for index, proxy in enumerate(console.identity_headers.trusted_proxies):
        if proxy is not None and (proxy.network.prefixlen == 0 or proxy.port is not None):
            place = ("console", "identity_headers", "trusted_proxies", str(index))
            yield Finding(place, "must be the IP address of your proxy, or its network, without a port")


EXTENSION = "x-"


def load(path: Path, *, environ: Mapping[str, str] = os.environ) -> model.Config:
    """Do what `gateway.config.load` says."""
    document = read_file(path)
    return _config(document, base=path.parent.absolute(), environ=environ, path=path.absolute())


def parse(document: Mapping[str, Any], *, base: Path, environ: Mapping[str, str] = os.environ) -> model.Config:
    """Do what `gateway.config.parse` says."""
    return _config(from_mapping(document), base=base.absolute(), environ=environ, path=None)


def _config(document: ConfigDocument, *, base: Path, environ: Mapping[str, str], path: Path | None) -> model.Config:
    # Top-level keys that begin with x- are ignored: operators define YAML anchors there.
    tree = {key: value for key, value in document.tree.items() if not key.startswith(EXTENSION)}
    filled_tree, findings, origins = substitute(tree, Substitution(environ, base))
    faulty = {finding.place for finding in findings}
    below_integrations = all(place[:1] == ("environments",) and place[2:3] == ("integrations",) for place in faulty)
    shape, shape_findings = read_shape(filled_tree, faulty, origins)
    findings = list(_with_database(findings, shape, base))
    faulty |= {finding.place for finding in shape_findings}
    rule_findings = [*broken_rules(shape, base, faulty), *_empty_secret_files(shape, origins)]
    findings += (_with_origin(finding, origins) for finding in (*shape_findings, *rule_findings))
    faults = document.faults(findings)
    left_out = frozenset({*faulty, *(finding.place for finding in rule_findings)})
    config = _build_config(shape, base, path, document, left_out)
    if faults:
        other_findings = document.findings or shape_findings or rule_findings
        only_values = below_integrations and not other_findings
        raise Faults(faults, Readable(config, left_out, lacks_only_integration_values=only_values))
    return config


def _with_database(findings: Iterable[Finding], shape: GatewayShape, base: Path) -> Iterator[Finding]:
    """Yield `findings`, with advice about a missing encryption key if the SQLite database exists.

    The database cannot be read without its key, so a new key would not help.
    """
    url = store_url.with_absolute_paths(shape.store.url, base)
    database = url.removeprefix(store_url.SQLITE)
    database_exists = database != url and _stat(Path(database)) is not None
    advice = f"{database} cannot be read without its encryption key: restore the key"
    for finding in findings:
        concerns_key = database_exists and finding.place[:2] == ("store", "encryption_keys")
        yield replace(finding, message=f"{finding.message}; {advice}") if concerns_key else finding


def _empty_secret_files(shape: GatewayShape, origins: Mapping[tuple[str, ...], str]) -> Iterator[Finding]:
    """Yield a fault for each client secret from an empty file: its writer has probably not finished."""
    for environment, environment_shape in shape.environments.items():
        for key, integration in environment_shape.integrations.items():
            place = ("environments", environment, "integrations", key, "client_secret")
            secret = integration.client_secret
            if secret is not None and not secret and origins.get(place, "").startswith("${file:"):
                yield Finding(place, "is empty; write the secret into the file, or leave the key out")


def _with_origin(finding: Finding, origins: Mapping[tuple[str, ...], str]) -> Finding:
    """Add the value's ``${…}`` reference to the fault, because the file does not show the value.

    Faults of a key itself do not concern its value.
    """
    origin = None if finding.message.startswith(_UNKNOWN_KEY) else origins.get(finding.place)
    return replace(finding, message=f"{finding.message} (it came from {origin})") if origin else finding


def _build_config(
    shape: GatewayShape, base: Path, path: Path | None, document: ConfigDocument, left_out: Collection[Place]
) -> model.Config:
    server, logo = shape.server, shape.branding.logo
    folders = (
        Path(os.path.normpath(base / folder))
        for index, folder in enumerate(shape.catalog)
        if folder is not None and ("catalog", str(index)) not in left_out
    )
    return model.Config(
        server=_from_shape(
            model.ServerConfig,
            server,
            public_url=server.public_url or model.default_public_url(server.host, server.port),
            limits=_from_shape(model.ClientLimitsConfig, server.limits),
        ),
        live=_from_shape(model.LiveConfig, shape.live),
        store=_from_shape(
            model.StoreConfig,
            shape.store,
            url=store_url.with_absolute_paths(shape.store.url, base),
            pool=_from_shape(model.PoolConfig, shape.store.pool),
        ),
        catalog=tuple(folders),
        environments={name: _environment(name, environment) for name, environment in shape.environments.items()},
        egress=_from_shape(
            model.EgressConfig,
            shape.egress,
            timeouts=_from_shape(model.TimeoutsConfig, shape.egress.timeouts),
            limits=_from_shape(model.LimitsConfig, shape.egress.limits),
        ),
        call_log=_call_log(shape),
        audit=_from_shape(
            model.AuditConfig,
            shape.audit,
            checkpoint_file=Path(os.path.normpath(base / file_name))
            if (file_name := shape.audit.checkpoint_file)
            else None,
        ),
        webhooks=_from_shape(model.WebhooksConfig, shape.webhooks),
        branding=_from_shape(
            model.BrandingConfig, shape.branding, logo=Path(os.path.normpath(base / logo)) if logo else None
        ),
        connect=_from_shape(model.ConnectConfig, shape.connect),
        console=_from_shape(
            model.ConsoleConfig,
            shape.console,
            oidc=_from_shape(model.ConsoleOidcConfig, shape.console.oidc),
            identity_headers=_from_shape(model.IdentityHeadersConfig, shape.console.identity_headers),
        ),
        tracing=_from_shape(model.TracingConfig, shape.tracing),
        path=path,
        document=document,
    )


def _call_log(shape: GatewayShape) -> model.CallLogConfig:
    """Return the settings of the call log. A key of the former section `request_log` wins if it is set."""
    request_log, call_log = shape.request_log, shape.call_log
    return model.CallLogConfig(
        enabled=call_log.enabled if request_log.enabled is None else request_log.enabled,
        keep_days=call_log.keep_days if request_log.keep_days is None else request_log.keep_days,
        max_bytes=call_log.max_bytes,
        sample=call_log.sample,
        max_rows=request_log.max_rows,
    )


def _environment(name: str, shape: EnvironmentShape) -> model.EnvironmentConfig:
    integrations = {
        key: _from_shape(
            Integration,
            integration_shape,
            environment=name,
            integration_id=key,
            provider=integration_shape.provider or key,
        )
        for key, integration_shape in shape.integrations.items()
    }
    return _from_shape(model.EnvironmentConfig, shape, name=name, integrations=integrations)


ModelType = TypeVar("ModelType")


def _from_shape(kind: Callable[..., ModelType], shape: Section, **replacements: Any) -> ModelType:
    """Return a `kind` with the values of `shape`, whose keys have the same names as the fields of `kind`.

    `replacements`: values that replace values of `shape`, or are added. A list becomes a tuple without null items and
    without duplicates.
    """
    values = {key: getattr(shape, key) for key in type(shape).model_fields if key not in replacements}
    for key, value in values.items():
        if isinstance(value, list):
            values[key] = tuple(dict.fromkeys(member for member in value if member is not None))
    return kind(**values, **replacements)

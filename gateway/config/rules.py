"""What several keys must be together, and what must be there at all."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gateway.config.document import Finding, Place
from gateway.config.shape import EnvironmentShape, GatewayShape, ServerShape
from gateway.config.values import is_loopback
from gateway.secret import Secret

LOGO_TYPES: Final = (".svg", ".png", ".webp", ".jpg", ".jpeg")
LOGO_BYTES: Final = 256 << 10


def findings(shape: GatewayShape, base: Path, faulty: set[Place]) -> Iterator[Finding]:
    """Faults between values that are each right. What is in `faulty` is not asked for again."""
    yield from _server(shape.server, faulty)
    yield from _store(shape, faulty)
    yield from _catalog(shape, base)
    yield from _secret_keys(shape.environments)
    yield from _logo(shape, base)


def _server(server: ServerShape, faulty: set[Place]) -> Iterator[Finding]:
    url = ("server", "public_url")
    if server.public_url is None and url not in faulty and not is_loopback(server.host):
        yield Finding(
            url,
            f"is required since server.host ({server.host}) is not loopback: "
            "the https address under which browsers reach this gateway",
        )
    if server.admin_port and server.admin_port == server.port:
        yield Finding(("server", "admin_port"), "is server.port as well; metrics need a port of their own")


def _store(shape: GatewayShape, faulty: set[Place]) -> Iterator[Finding]:
    place = ("store", "encryption_keys")
    told = any(fault[: len(fault)] == place[: len(fault)] or fault[:2] == place for fault in faulty)
    if not told and not any(shape.store.encryption_keys):
        yield Finding(
            place,
            'is required: base64 of 32 random bytes, such as ["${GATEWAY_ENCRYPTION_KEY}"] or '
            '["${file:encryption_key}"]; `gateway init` makes one',
        )


def _catalog(shape: GatewayShape, base: Path) -> Iterator[Finding]:
    for index, folder in enumerate(shape.catalog):
        if folder is None:
            continue
        place = ("catalog", str(index))
        if "\0" in folder or not (base / folder).exists():
            yield Finding(place, f"there is no folder {base / folder}".replace("\0", "?"))
        elif not (base / folder).is_dir():
            yield Finding(place, f"{base / folder} is not a folder")


def _secret_keys(environments: Mapping[str, EnvironmentShape]) -> Iterator[Finding]:
    """A key names one environment: with two it could not say which."""
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
    named = shape.branding.logo
    if named is None:
        return
    place, file = ("branding", "logo"), base / named
    if file.suffix.lower() not in LOGO_TYPES:
        yield Finding(place, f"must be a file that ends in {', '.join(LOGO_TYPES)}")
    elif "\0" in named or not file.is_file():
        yield Finding(place, f"there is no file {file}".replace("\0", "?"))
    elif file.stat().st_size > LOGO_BYTES:
        yield Finding(place, f"is larger than {LOGO_BYTES >> 10} KiB")

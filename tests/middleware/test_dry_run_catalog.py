"""A dry run for every credential placement of the shipped catalog: the output contains no credential in any
encoding."""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from multidict import CIMultiDict

from gateway import clock
from gateway.auth import modes
from gateway.authoring.rehearsal.samples import sample_key
from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.provider import Provider
from gateway.catalog.template_places import url_templates
from gateway.catalog.value import BadValue, check_value
from gateway.connections.opened import OpenedConnection, open_connection
from gateway.middleware.dry_run import masked_request
from gateway.middleware.upstream import place_credential
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.records.integration import Integration
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret

CATALOG = load_catalog([Path("catalog")])
MEMBERS: Mapping[str, tuple[str, ...]] = {
    "OAUTH2": ("access_token", "refresh_token"),
    "MCP_OAUTH2": ("access_token", "refresh_token"),
    "MCP_OAUTH2_GENERIC": ("access_token", "refresh_token"),
    "CUSTOM": ("access_token",),
    "APP": ("access_token",),
    "OAUTH2_CC": ("token", "client_id", "client_secret"),
    "OAUTH1": ("oauth_token", "oauth_token_secret"),
    "API_KEY": ("apiKey",),
    "BASIC": ("username", "password"),
    "INSTALL_PLUGIN": ("username", "password"),
    "SIGNATURE": ("username", "password"),
    "JWT": ("token",),
    "TWO_STEP": ("token",),
    "BILL": ("username", "password", "organization_id", "dev_key", "session_id", "user_id"),
    "TBA": ("token_id", "token_secret"),
    "AWS_SIGV4": ("access_key_id", "secret_access_key", "session_token"),
    "NONE": (),
}
AWKWARD = "two words/{}+=&:?"  # contains characters that must be encoded in a URL, and begins like a scheme


class Markers:
    """Recognizable values, found again in any encoding."""

    def __init__(self, awkward: str) -> None:
        self.awkward = awkward
        self.made: list[str] = []

    def new(self) -> str:
        self.made.append(self.awkward.format(f"Mk{len(self.made)}Zq7wSecret"))
        return self.made[-1]


def spellings(text: str) -> Iterator[str]:
    """Yield the text plain, percent-encoded, in hex, and in base64 at each alignment."""
    raw = text.encode()
    yield text
    yield quote(text, safe="")
    yield quote_plus(text)
    yield raw.hex()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            encoded = encode(b"\0" * before + raw).decode().rstrip("=")
            yield encoded[4 if before else 0 : -4]


def leaks(shown: Any, markers: list[str]) -> list[str]:
    text = json.dumps(shown, ensure_ascii=False)
    return [spelt for marker in markers for spelt in spellings(marker) if len(spelt) > 6 and spelt in text]


def distinct() -> list[str]:
    """Return one entry for each way of placing a credential."""
    found: dict[str, str] = {}
    for name, entry in CATALOG.providers.items():
        proxy, secret = entry.proxy, sorted(n for n, item in entry.connection_config.items() if item.secret)
        bases = [
            text
            for at, text in url_templates(entry)
            if at[0] == "proxy" or at[:2] == ("alternatives", "proxy.base_url")
        ]
        shape = [entry.auth_mode, dict(proxy.headers), dict(proxy.query), proxy.body, secret]
        shape += [base for base in bases if any(item in base for item in ("apiKey", "oken", *secret))]
        found.setdefault(json.dumps(shape, sort_keys=True, default=str), name)
    return sorted(found.values())


def fits(name: str, value: str, setting: Any) -> bool:
    try:
        check_value(name, value, setting)
    except BadValue:
        return False
    return True


def settings_of(entry: Provider, markers: Markers) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, item in entry.connection_config.items():
        plain = item.example or item.default_value or next(iter(item.enum or ()), None) or {
            "hostname": "acme.example.com", "uri": "https://acme.example.com"
        }.get(item.format or "", "acme")  # fmt: skip
        made[name] = plain
        if item.secret:
            fitting = [text for text in (markers.new(), Markers("{}").new()) if fits(name, text, item)]
            made[name] = fitting[0] if fitting else plain
            markers.made.append(made[name])
    for name in entry.connection_configuration or ():
        made.setdefault(name, "acme")
    return made


def open_with_markers(entry: Provider, markers: Markers) -> OpenedConnection:
    mode = modes()[entry.auth_mode]
    credential: dict[str, Any] = {"type": mode.types()[0], "raw": {}}
    credential |= {name: markers.new() for name in (*MEMBERS[entry.auth_mode], *entry.credentials)}
    if entry.name == "tableau":
        # The entry's base URL contains the site of the token.
        credential["raw"] = {"credentials": {"site": {"id": "9a8b7c6d"}}}
    secret = sample_key("RS256") if entry.signature_method == "RSA-SHA1" else markers.new()
    integration = Integration(
        environment="dev",
        integration_id=entry.name,
        provider=entry.name,
        client_id="the-client-id",
        client_secret=Secret(secret),
        private_key=Secret(sample_key("RS256")),
    )
    now = clock.now()
    row = Connection(
        ref=ConnectionRef("dev", entry.name, "c1"), id=1, uid="u", provider=entry.name, version=1,
        credential=Sealed(b"", "dev", "connections", "u", "credential", 1), expires_at=None, created_at=now, updated_at=now,
        config=settings_of(entry, markers),
    )  # fmt: skip
    return open_connection(row, integration, entry, mode, credential, {})


def dry_run_of(first_opened: OpenedConnection, *, has_body: bool = False) -> dict[str, Any]:
    base = first_opened.base
    request = UpstreamRequest(
        "POST" if has_body else "GET", base.scheme, base.host, base.port, f"{base.path}/x?a=b",
        CIMultiDict([("Accept", "*/*"), ("Content-Type", "application/json")]), base.path,
    )  # fmt: skip
    place_credential(first_opened, request, has_body=has_body)
    return masked_request(
        first_opened, request, has_body=has_body, body=("the caller, as it comes", 3) if has_body else None
    )


@pytest.mark.parametrize("awkward", ["{}", AWKWARD], ids=["plain", "awkward"])
def test_no_placement_of_the_catalog_shows_a_credential(awkward: str) -> None:
    names = distinct()
    assert len(names) > 200
    for name in names:
        entry, markers = CATALOG.providers[name], Markers(awkward)
        opened = open_with_markers(entry, markers)
        for has_body in (False, True):
            assert leaks(dry_run_of(opened, has_body=has_body), markers.made) == [], name


def test_search_finds_an_unmasked_credential() -> None:
    """Put each encoding where nothing is masked, and find it."""
    marker = Markers(AWKWARD).new()
    for spelt in spellings(marker):
        assert leaks({"url": f"https://x.example/{spelt}"}, [marker]), spelt
    basic = base64.b64encode(f"someone:{marker}".encode()).decode()
    assert leaks({"headers": [["Authorization", f"Basic {basic}"]]}, [marker])


def test_most_of_the_catalog_is_reported_by_few_placements() -> None:
    names = distinct()
    assert "telegram" in names
    assert {CATALOG.providers[name].auth_mode for name in names} == {
        provider.auth_mode for provider in CATALOG.providers.values()
    }

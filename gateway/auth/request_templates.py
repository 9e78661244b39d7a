"""Templates of the entry that name parts of the request itself: filled in anew for each attempt, when all else stands.

${method} ${host}            as they will be sent
${path} ${params}            path and query of the final address, percent-encoding untouched
${endpoint}                  both, with the question mark between them
${contentType}               the body's media type
${urlCanonicalParams}        the query sorted by name, percent-encoded as RFC 3986 has it
${bodyCanonicalParams}       the same of a form, or of a flat JSON object
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from gateway.auth.signer import Signer
from gateway.auth.sigv4_signer import host_of
from gateway.catalog.auth_modes import REQUEST
from gateway.catalog.interpolate import BadValue, Moment, Unresolved, placeholders, render_text
from gateway.catalog.value import flat_values
from gateway.errors import InvalidRequest
from gateway.records.upstream import UpstreamRequest

BODY: Final = "bodyCanonicalParams"
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


def of_request(template: str) -> bool:
    """Whether it names a part of the request."""
    return not REQUEST.isdisjoint(placeholders(template))


@dataclass(frozen=True, slots=True)
class RequestTemplates:
    """`headers` and `query` are templates by name, header names lower-case; `known` is what else they may name.

    All of them replace what the caller sent: one that carries no credential still is what another one signs.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    known: Mapping[str, str] = field(repr=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.headers)

    @property
    def query_fields(self) -> tuple[str, ...]:
        return tuple(self.query)

    def wants_body(self, request: UpstreamRequest) -> bool:
        templates = (*self.headers.values(), *self.query.values())
        return request.method in WITH_BODY and any(BODY in placeholders(template) for template in templates)

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        path, _, query = request.target.partition("?")
        pairs = [pair for pair in query.split("&") if pair and _name(pair) not in self.query]
        known = {**self.known, **_parts(request, path, "&".join(pairs), body)}
        moment = Moment()
        for name, template in self.query.items():
            pairs.append(f"{quote(name, safe='')}={quote(_rendered(name, template, known, moment), safe='')}")
        request.target = path + ("?" + "&".join(pairs) if pairs else "")
        for name, template in self.headers.items():
            request.headers[name] = _rendered(name, template, known, moment)


@dataclass(frozen=True, slots=True)
class Signers:
    """Several, one after the other: the last one signs what those before it wrote."""

    each: tuple[Signer, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for signer in self.each for name in signer.fields)

    @property
    def query_fields(self) -> tuple[str, ...]:
        return tuple(name for signer in self.each for name in signer.query_fields)

    def wants_body(self, request: UpstreamRequest) -> bool:
        return any(signer.wants_body(request) for signer in self.each)

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        for signer in self.each:
            signer.sign(request, body)


def _rendered(name: str, template: str, known: Mapping[str, str], moment: Moment) -> str:
    try:
        return render_text(template, known, moment=moment)
    except Unresolved as fault:
        missing = ", ".join(sorted(fault.names))
        raise InvalidRequest(
            "unresolved_setting", f"The credential's place '{name}' needs {missing}, which this connection lacks."
        ) from fault
    except BadValue as fault:
        raise InvalidRequest("unresolved_setting", f"The value for '{name}' cannot be sent: {fault.why}.") from fault


def _parts(request: UpstreamRequest, path: str, query: str, body: bytes | None) -> dict[str, str]:
    kind = request.headers.get("content-type", "")
    return {
        "method": request.method,
        "host": host_of(request),
        "path": path,
        "params": query,
        "endpoint": f"{path}?{query}" if query else path,
        "contentType": kind,
        "urlCanonicalParams": _canonical(parse_qsl(query, keep_blank_values=True)),
        BODY: _canonical(_members(kind, body or b"")),
    }


def _canonical(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in sorted(pairs))


def _members(kind: str, body: bytes) -> list[tuple[str, str]]:
    media = kind.partition(";")[0].strip().lower()
    if media == "application/x-www-form-urlencoded":
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    if media == "application/json" or media.endswith("+json"):
        try:
            value: Any = json.loads(body)
        except (ValueError, RecursionError):
            return []
        return list(flat_values(value).items()) if isinstance(value, dict) else []
    return []


def _name(pair: str) -> str:
    return parse_qsl(pair, keep_blank_values=True)[0][0] if "=" in pair else pair

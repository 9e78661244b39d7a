"""Templates of the entry that name parts of the request itself: filled in anew for each attempt, when all else stands.

What they may name, `gateway.catalog.request_values` tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from gateway.auth.signer import Signer
from gateway.auth.sigv4_signer import host_of
from gateway.catalog.interpolate import BadValue, Moment, Unresolved, placeholders, render_text
from gateway.catalog.request_values import request_values
from gateway.errors import InvalidRequest
from gateway.records.upstream import UpstreamRequest
from gateway.wire.url import name_of

BODY: Final = "bodyCanonicalParams"
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


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
        pairs = [pair for pair in query.split("&") if pair and name_of(pair) not in self.query]
        url = f"{request.scheme}://{host_of(request)}{path}" + ("?" + "&".join(pairs) if pairs else "")
        kind = request.headers.get("content-type", "")
        known = {**self.known, **request_values(request.method, url, content_type=kind, body=body or b"")}
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

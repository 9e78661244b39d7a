"""Fills templates that use parts of the request itself, for each attempt, after the rest of the request is complete.

`request_values` lists the names that such templates can use.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from gateway.auth.aws_sigv4 import host_field
from gateway.auth.mode import Signer
from gateway.catalog.render import Moment, Unresolved, render_text
from gateway.catalog.template import placeholders
from gateway.catalog.value import BadValue
from gateway.errors import InvalidRequest
from gateway.http.body_members import FORM, METHODS_WITH_BODY
from gateway.http.url import parameter_name
from gateway.records.proxied_call import UpstreamRequest

# ── Values of the sent request that templates in `proxy.headers` and `proxy.query` may use.


def request_values(method: str, url: str, *, content_type: str = "", body: bytes = b"") -> dict[str, str]:
    """Return the values ``method``, ``host`` (with a port unless it is the default), ``path``, ``params`` (the query),
    ``endpoint`` (path and query), ``contentType``, ``urlCanonicalParams`` and ``bodyCanonicalParams``.

    `url`: the final, percent-encoded URL. The canonical parameters are encoded again; the other parts of the URL stay
    unchanged. `body`: the whole body, empty if it is not known. The canonical parameters of a body are the
    members of a form or of a JSON object. Any other body has no canonical parameters.
    """
    parts = urlsplit(url)
    path = parts.path or "/"
    return {
        "method": method,
        "host": parts.netloc,
        "path": path,
        "params": parts.query,
        "endpoint": f"{path}?{parts.query}" if parts.query else path,
        "contentType": content_type,
        "urlCanonicalParams": canonical_query(parse_qsl(parts.query, keep_blank_values=True)),
        "bodyCanonicalParams": canonical_query(_body_members(content_type, body)),
    }


def canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the pairs as ``a=1&b=2``, sorted by name, then by value. All characters except unreserved characters are
    percent-encoded (RFC 3986 §2.3)."""
    return "&".join(f"{name}={value}" for name, value in sorted((_encode(name), _encode(text)) for name, text in pairs))


def _encode(text: str) -> str:
    return quote(text, safe="~")


def _body_members(content_type: str, body: bytes) -> list[tuple[str, str]]:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == FORM:
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    if media_type != "application/json":
        return []
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return [(name, _member_text(member)) for name, member in value.items()] if isinstance(value, Mapping) else []


def _member_text(member: Any) -> str:
    return member if isinstance(member, str) else json.dumps(member, separators=(",", ":"), ensure_ascii=False)


BODY_PARAMETERS: Final = "bodyCanonicalParams"


@dataclass(frozen=True, slots=True)
class RequestTemplates:
    """A signer that fills templates. `headers`, `query`: templates by name, with header names in lower case.
    `known_values`: values that do not depend on the request.

    Every template replaces the caller's value, even if the template contains no credential, because another template
    can sign it.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    known_values: Mapping[str, str] = field(repr=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.headers)

    @property
    def query_fields(self) -> tuple[str, ...]:
        return tuple(self.query)

    def wants_body(self, request: UpstreamRequest) -> bool:
        templates = (*self.headers.values(), *self.query.values())
        return request.method in METHODS_WITH_BODY and any(
            BODY_PARAMETERS in placeholders(template) for template in templates
        )

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        path, _, query = request.target.partition("?")
        pairs = [pair for pair in query.split("&") if pair and parameter_name(pair) not in self.query]
        url = f"{request.scheme}://{host_field(request)}{path}" + ("?" + "&".join(pairs) if pairs else "")
        content_type = request.headers.get("content-type", "")
        values = {
            **self.known_values,
            **request_values(request.method, url, content_type=content_type, body=body or b""),
        }
        moment = Moment()
        for name, template in self.query.items():
            pairs.append(f"{quote(name, safe='')}={quote(_fill_in(name, template, values, moment), safe='')}")
        request.target = path + ("?" + "&".join(pairs) if pairs else "")
        for name, template in self.headers.items():
            request.headers[name] = _fill_in(name, template, values, moment)


@dataclass(frozen=True, slots=True)
class Signers:
    """Several signers in sequence. Each signer signs the result of the previous signers."""

    signers: tuple[Signer, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for signer in self.signers for name in signer.fields)

    @property
    def query_fields(self) -> tuple[str, ...]:
        return tuple(name for signer in self.signers for name in signer.query_fields)

    def wants_body(self, request: UpstreamRequest) -> bool:
        return any(signer.wants_body(request) for signer in self.signers)

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        for signer in self.signers:
            signer.sign(request, body)


def _fill_in(name: str, template: str, values: Mapping[str, str], moment: Moment) -> str:
    try:
        return render_text(template, values, moment=moment)
    except (Unresolved, BadValue, UnicodeEncodeError) as fault:
        raise unfilled_error(name, fault) from fault


def unfilled_error(name: str, fault: Unresolved | BadValue | UnicodeEncodeError) -> InvalidRequest:
    """Return the error for the template of the header field or query parameter `name`, which cannot be filled."""
    if isinstance(fault, Unresolved):
        missing_names = ", ".join(sorted(fault.names))
        problem = (
            f"'{name}' needs {missing_names}, which this connection does not have. Add it, or connect again with it."
        )
    elif isinstance(fault, BadValue):
        problem = f"The value for '{name}' cannot be sent: {fault.why}."
    else:  # only Content-Type can have such bytes
        problem = f"The value for '{name}' cannot be computed: the request's Content-Type has bytes that are not UTF-8."
    return InvalidRequest("unresolved_setting", problem)

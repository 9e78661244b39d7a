"""Parses the gateway's control headers of a proxied call (docs/compatibility.md#proxy-headers).

The error for an invalid call names all faults together.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDictProxy

from gateway.errors import InvalidRequest, Issue
from gateway.http.retry import MAX_RETRIES
from gateway.http.url import has_dot_segment
from gateway.origin import ParsedUrl, parse_url
from gateway.records.connection import CONNECTION_ID, PROVIDER_CONFIG_KEY, id_fault
from gateway.text import nearest

_COUNT: Final = re.compile(r"[0-9]{1,9}")
_STATUSES: Final = re.compile(r"[0-9]{1,3}(,[0-9]{1,3})*")
_SECONDS: Final = re.compile(r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,3})?")
_SHOWN: Final = re.compile(
    r"[A-Za-z0-9 .,+-]{1,16}"
)  # values that an error message repeats; a longer value could be a secret
_MAX_CHARS: Final = 255
CONNECTION_HEADERS: Final = ("Provider-Config-Key", "Connection-Id")
_MEANINGS: Final = {
    "Provider-Config-Key": "with the key of an integration; GET /integrations lists the keys",
    "Connection-Id": "with the id of a connection; GET /connections lists the ids",
}
_OWN_PREFIX: Final = "Gateway-"
_OWN_PREFIX_LOWER: Final = "gateway-"
# The headers of requests that begin with `_OWN_PREFIX`.
OWN_HEADERS: Final = (
    "Gateway-Dry-Run",
    "Gateway-Max-Bytes",
    "Gateway-Paginate",
    "Gateway-Paginate-From",
    "Gateway-Select",
    "Gateway-Timeout",
)
_OWN_LOWER: Final = frozenset(name.lower() for name in OWN_HEADERS)
_OWN_BY_SUFFIX: Final = {name.removeprefix(_OWN_PREFIX): name for name in OWN_HEADERS}
# The headers of responses and events, which a caller may send back.
_ECHOED: Final = frozenset(
    f"{_OWN_PREFIX}{name}".lower()
    for name in (
        "Attempts",
        "Connect-Url",
        "Cut",
        "Environment",
        "Error",
        "Integration",
        "Provider",
        "Refresh-Failed",
        "Request-Id",
    )
)


Check = Callable[[str], str | None]
"""Returns why a header's value is invalid, as the end of a sentence that begins with the name; None if it is valid."""


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The options of a proxied call, parsed from its headers.

    `retries`: the number of retries, at most `MAX_RETRIES`. `retry_on`: additional statuses to retry. `decompress`:
    None if the header is missing. `base_url`: None if the header is missing or empty; published SDKs send an empty
    header. `timeout_s`: None if the header is missing, so that the operator's setting applies.
    """

    integration_id: str
    connection_id: str
    retries: int = 0
    retry_on: tuple[int, ...] = ()
    decompress: bool | None = None
    base_url: ParsedUrl | None = None
    timeout_s: float | None = None
    dry_run: bool = False


def parse_proxy_options(headers: CIMultiDictProxy[str], bound_to: tuple[str, str] | None = None) -> ProxyOptions:
    """Parse the headers that set the options of a proxied call.

    Raises InvalidRequest ``invalid_headers`` with one issue for each invalid header. The issue's path is the lower-case
    name of the header.

    `bound_to`: the integration and the connection of a capability URL. The headers that name a connection must then be
    missing or have the same values. `bound_to` is None for other calls.
    """
    issues: list[Issue] = []

    def field(name: str, check: Check, *, required: bool = False) -> str:
        if name not in headers and not required:
            return ""
        sent_values = headers.getall(name, [])
        issue_of_field = _issue_of_header(name, sent_values, check, required=required)
        if issue_of_field is not None:
            issues.append(issue_of_field)
            return ""
        return sent_values[0] if sent_values else ""

    required = bound_to is None
    integration_id = field("Provider-Config-Key", lambda text: id_fault(text, PROVIDER_CONFIG_KEY), required=required)
    connection_id = field("Connection-Id", lambda text: id_fault(text, CONNECTION_ID), required=required)
    if bound_to is not None:
        for name, sent_id, bound_id in zip(CONNECTION_HEADERS, (integration_id, connection_id), bound_to, strict=True):
            if sent_id and sent_id != bound_id:
                issues.append(
                    Issue(
                        "custom", f"{name} does not match the one in this URL. Leave the header out.", (name.lower(),)
                    )
                )
        integration_id, connection_id = bound_to
    retries = field("Retries", _CHECK_COUNT)
    retry_on = field("Retry-On", _CHECK_STATUSES)
    decompress = field("Decompress", _true_or_false)
    field("Forward-Headers-On-Redirect", _true_or_false)
    base_url = field("Base-Url-Override", _base_url)
    timeout = field("Gateway-Timeout", _CHECK_SECONDS)
    dry_run = field("Gateway-Dry-Run", _true_or_false)
    if issues:
        raise InvalidRequest("invalid_headers", " ".join(issue.message for issue in issues), errors=issues)
    return ProxyOptions(
        integration_id,
        connection_id,
        min(int(retries or 0), MAX_RETRIES),
        tuple(int(status) for status in retry_on.split(",")) if retry_on else (),
        decompress.lower() == "true" if decompress else None,
        parse_url(base_url) if base_url else None,
        float(timeout) if timeout else None,
        dry_run.lower() == "true",
    )


def _issue_of_header(name: str, sent_values: Sequence[str], check: Check, *, required: bool) -> Issue | None:
    """Return what is wrong with the header `name`; None if it is valid.

    `sent_values`: the header's values, in the order of sending.
    """
    if len(sent_values) > 1:
        return Issue("invalid_value", f"Send {name} once, not {len(sent_values)} times.", (name.lower(),))
    if not sent_values or not sent_values[0]:
        if not required:
            return None
        return Issue("invalid_type", f"Send the header {name} {_MEANINGS[name]}.", (name.lower(),))
    value = sent_values[0]
    if len(value) > _MAX_CHARS and required:
        return Issue("too_big", f"{name} is longer than {_MAX_CHARS} characters.", (name.lower(),))
    fault_text = check(value)
    if fault_text is None:
        return None
    shown_value = f", not '{value}'" if fault_text.startswith("must be ") and _SHOWN.fullmatch(value) else ""
    return Issue("invalid_format", f"{name} {fault_text}{shown_value}.", (name.lower(),))


def check_own_headers(headers: "CIMultiDictProxy[str]") -> None:
    """Raise InvalidRequest for a name that is almost one of `OWN_HEADERS`.

    Such a header would have no effect: the call after a mistyped ``Gateway-Dry-Run`` would be sent to the provider.
    """
    issues: list[Issue] = []
    for name in headers:
        lower_name = name.lower()
        if not lower_name.startswith(_OWN_PREFIX_LOWER) or lower_name in _ECHOED or lower_name in _OWN_LOWER:
            continue
        if similar_suffix := nearest(name[len(_OWN_PREFIX) :], _OWN_BY_SUFFIX):
            message = f"{name} is not a header of the gateway; did you mean {_OWN_BY_SUFFIX[similar_suffix]}?"
            issues.append(Issue("unrecognized_keys", message, (lower_name,)))
    if issues:
        raise InvalidRequest("invalid_headers", " ".join(issue.message for issue in issues), errors=issues)


def sent_once(headers: "CIMultiDictProxy[str]", name: str) -> str:
    """Return the value of the header `name`; empty if the header is missing.

    Raises InvalidRequest if the header was sent several times.
    """
    values = headers.getall(name, ())
    if len(values) > 1:
        raise wrong_header(name, f"was sent {len(values)} times; send it once")
    return values[0].strip() if values else ""


def wrong_header(name: str, *faults: str) -> InvalidRequest:
    """Return the error for the header `name`. Each of `faults` is the rest of a sentence that begins with the name."""
    issues = [Issue("invalid_format", f"{name} {fault}.", (name.lower(),)) for fault in faults]
    return InvalidRequest("invalid_headers", " ".join(issue.message for issue in issues), errors=issues)


def _pattern_check(pattern: re.Pattern[str], fault_text: str) -> Check:
    return lambda value: None if pattern.fullmatch(value) else fault_text


_CHECK_COUNT: Final = _pattern_check(_COUNT, "must be a whole number")
_CHECK_STATUSES: Final = _pattern_check(_STATUSES, "must be statuses separated by commas, as in 429,503")
_CHECK_SECONDS: Final = _pattern_check(_SECONDS, "must be seconds, more than 0, such as 2.5")


def _true_or_false(value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "must be true or false"


def _base_url(value: str) -> str | None:
    try:
        base_url = parse_url(value)
    except ValueError as fault:
        return f"is not a base URL: {fault}"
    if base_url.query or has_dot_segment(base_url.path):
        return "must not contain a query or dot segments"
    return None

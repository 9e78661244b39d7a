"""From a call's inputs (requirement 4.3, rule 4) to the address and the header fields of its request. No I/O."""

import re
import string
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Final, TypedDict
from urllib.parse import quote

Param = str | int | float | bool | None
Params = Mapping[str, Param | Sequence[Param]] | Sequence[tuple[str, Param]]
Body = bytes | str | Mapping[str, str] | IO[bytes] | AsyncIterable[bytes] | Iterable[bytes]

# What may stand in a target as it is, '%' included: an endpoint is a path and perhaps a query, encoded already.
_KEPT: Final = "".join(c for c in string.printable if c.isprintable() and c not in ' "#<>\\^`{}')


_ABSOLUTE: Final = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")


class Options(TypedDict, total=False):
    """What a call may say besides its endpoint; what is left out is the client's, or the gateway's.

    `params`: the query. None is left out, true and false are written so, and a list becomes a repeated parameter.
    `base_url_override`: replaces the provider's base address for this call. `json` is sent as JSON, `data` as it is, a
    mapping as a form, an iterable a piece at a time. `retries`, `retry_on`: how often, and on which statuses besides the
    usual, the gateway tries again. `timeout_s`: until the provider's answer begins. `decompress`: have the gateway undo
    the provider's coding.
    """

    params: Params
    provider_config_key: str
    connection_id: str
    base_url_override: str
    headers: Mapping[str, str]
    json: Any
    data: Body
    retries: int
    retry_on: Sequence[int]
    timeout_s: float
    decompress: bool


def proxied(base_url: str, endpoint: str, params: Params | None) -> str:
    """The address of a call. Raises ValueError for an absolute URL."""
    target = f"{base_url}/proxy{quote(below(base_url, endpoint), safe=_KEPT)}"
    query = written(params)
    if not query:
        return target
    return f"{target}{'&' if '?' in target else '?'}{query}"


def below(base_url: str, endpoint: str) -> str:
    """`endpoint` with a slash before it. One from a Link or Location that the gateway wrote begins with the gateway's address.

    Raises ValueError for any other absolute URL: as a path it would lead nowhere, and the provider's 404 would not say why.
    """
    start = f"{base_url}/proxy"
    rest = endpoint
    if endpoint.startswith((f"{start}/", f"{start}?")) or endpoint == start:
        rest = endpoint.removeprefix(start)
    if _ABSOLUTE.match(rest):
        raise ValueError(
            f"'{endpoint.partition('?')[0]}' is an absolute URL; an endpoint is what follows the provider's base URL, such "
            "as '/users/1'. To follow `next` links use paginate(), to call another host base_url_override."
        )
    return f"/{rest}" if rest and not rest.startswith(("/", "?")) else rest


def written(params: Params | None) -> str:
    """The query, percent-encoded, a blank as ``%20``."""
    return "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in _pairs(params or ()))


def _pairs(params: Params) -> Iterator[tuple[str, str]]:
    items: Iterable[tuple[str, Any]] = params.items() if isinstance(params, Mapping) else params
    for name, value in items:
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        for one in values:
            if one is not None:
                yield name, str(one).lower() if isinstance(one, bool) else str(one)


def fields(options: Options) -> dict[str, str]:
    """The header fields that the options ask for, the caller's own included. Raises ValueError for a missing name."""
    told = dict(options.get("headers", {}))
    for header, option in (("Provider-Config-Key", "provider_config_key"), ("Connection-Id", "connection_id")):
        name = options.get(option)
        if not name:
            raise ValueError(f"{option} is missing: give it to the call, or to the client for all calls")
        told[header] = str(name)
    if options.get("base_url_override"):
        told["Base-Url-Override"] = options["base_url_override"]
    if "retries" in options:
        told["Retries"] = str(options["retries"])
    if options.get("retry_on"):
        told["Retry-On"] = ",".join(map(str, options["retry_on"]))
    if "timeout_s" in options:
        told["Gateway-Timeout"] = f"{options['timeout_s']:.3f}".rstrip("0").rstrip(".")
    if "decompress" in options:
        told["Decompress"] = "true" if options["decompress"] else "false"
    return told


def wish(pages: int | None, limit: int | None, way: Mapping[str, str | int] | None) -> str:
    """The value of Gateway-Paginate, marks asked for. Raises ValueError for what no header may hold."""
    said = ["all" if pages is None else str(pages), "marks"]
    if limit is not None:
        said.append(f"limit={limit}")
    for name, value in (way or {}).items():
        text = str(value)
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"{name} must be printable ASCII")
        quoted = text.replace("\\", r"\\").replace('"', r"\"")
        said.append(f'{name}="{quoted}"')
    return "; ".join(said)

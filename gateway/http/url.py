"""Builds the target of the provider's request from the proxied call's target, byte for byte; finds dot segments.

No URL library touches the path or the query: every library normalizes something, which may break a signature over the
original bytes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from gateway.errors import InvalidRequest
from gateway.http.origin import ABSOLUTE, parse_authority

# ── Dot segments, as the most lenient server behind the gateway might read them.
#
# Paths from callers and values in templates use the same check, so that neither accepts a path that the other refuses.

_SEPARATOR: Final = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)


def has_dot_segment(path: str) -> bool:
    """Return whether a segment is ``.`` or ``..`` after one percent-decoding.

    Encoded slashes and backslashes also separate segments. Text after ``;`` in a segment is ignored, since some servers
    drop it (RFC 3986 §3.3).
    """
    if "." not in path and "%2" not in path:
        return False
    return any(unquote(segment).partition(";")[0] in {".", ".."} for segment in _SEPARATOR.split(path))


# ── Nested names in a query, as published clients write them (docs/compatibility.md#requests).


def nested_parameters(query: Mapping[str, str], name: str) -> dict[str, str]:
    """Return nested query parameters: ``params[subdomain]=acme`` gives ``{"subdomain": "acme"}`` for ``params``."""
    start = name + "["
    return {key[len(start) : -1]: text for key, text in query.items() if key.startswith(start) and key.endswith("]")}


_NOT_A_TARGET: Final = re.compile(r"[^!-~]|[\\#]")


class ProxiedTarget(NamedTuple):
    """The target after the mount prefix and ``/proxy``. `path` is empty or begins with ``/``, `query` is empty or
    begins with ``?``."""

    path: str
    query: str


def origin_form(target: str, host: str) -> str:
    """Return the target without scheme and authority (RFC 9112 §3.2.1, §3.2.2); return ``*`` unchanged.

    `host`: the value of Host, already checked by `request_head`. A host that `parse_authority` refuses, such as
    ``my~gw``, must be equal as text.

    Raises InvalidRequest ``bad_framing`` if an absolute target's authority differs from Host (a default port may be
    absent).
    """
    if target.startswith(("/", "*")):
        return target
    absolute = ABSOLUTE.match(target)
    if absolute is not None:
        scheme, authority = absolute["scheme"].lower(), absolute["authority"]
        parsed = parse_authority(scheme, authority)
        if authority.lower() == host.lower() or (parsed is not None and parsed == parse_authority(scheme, host)):
            rest = target[absolute.end() :]
            return rest if rest.startswith("/") else f"/{rest}"
    raise InvalidRequest(
        "bad_framing", "The target's authority is not the one in Host. Send the path alone.", close=True
    )


def parse_proxied_target(target: str, mount_prefix: str, shown: str | None = None) -> ProxiedTarget:
    """Return the path and query to request from the provider. `mount_prefix`: the literal start of the target, for
    example ``/gateway/proxy``; `shown`: text for it in error messages, if it is secret.

    Raises InvalidRequest ``bad_path`` for another start (``/%70roxy``), dot segments in any spelling, and characters
    that must be percent-encoded. The query may hold dot segments.
    """
    if _NOT_A_TARGET.search(target):
        raise InvalidRequest(
            "bad_path", "Percent-encode control characters, spaces, '\\', '#' and all that is not ASCII in the URL."
        )
    rest = target.removeprefix(mount_prefix)
    if not target.startswith(mount_prefix) or rest[:1] not in ("", "/", "?"):
        raise InvalidRequest("bad_path", f"The path must begin literally with {shown or mount_prefix}/.")
    path, mark, query = rest.partition("?")
    if has_dot_segment(path):
        raise InvalidRequest("bad_path", "The path holds a '.' or '..' segment; send the path it resolves to.")
    return ProxiedTarget(path, mark + query)


def join_target(base_path: str, rest: ProxiedTarget) -> str:
    """Return the target for the provider. `base_path` has no trailing slash;
    an empty `rest.path` means the base itself."""
    return (base_path + rest.path or "/") + rest.query


def with_query(target: str, slots: Iterable[tuple[str, str]], defaults: Iterable[tuple[str, str]]) -> str:
    """Return `target` with pairs added to its query. `slots` replace the caller's pairs of that name, in any encoding;
    `defaults` apply only where the caller sent none. Both are percent-encoded; other pairs stay byte for byte."""
    path, _, query = target.partition("?")
    pairs = query.split("&") if query else []
    sent = [parameter_name(pair) for pair in pairs]
    added: list[str] = []
    replaced: set[str] = set()
    for name, value in slots:
        replaced.add(unquote_plus(name))
        added.append(f"{name}={value}")
    for name, value in defaults:
        if unquote_plus(name) not in sent and unquote_plus(name) not in replaced:
            added.append(f"{name}={value}")
    if not added:
        return target
    kept = [pair for pair, name in zip(pairs, sent, strict=True) if name not in replaced]
    return f"{path}?{'&'.join(kept + added)}"


def parameter_name(pair: str) -> str:
    """Return the name in ``name=value``, decoded."""
    return unquote_plus(pair.partition("=")[0])

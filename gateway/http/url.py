"""Builds the target of the request to the provider from the target of the proxied call; finds dot segments.

No URL library changes the path or the query. Every library normalizes some characters, which can break a signature of
the original bytes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from gateway.errors import InvalidRequest
from gateway.origin import ABSOLUTE, ParsedUrl, parse_authority

# ── Finds dot segments. A segment counts even if only a very lenient server reads it as one.
#
# Paths from callers and values in templates use the same check, so that both accept the same paths.

_SEPARATOR: Final = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)


def has_dot_segment(path: str) -> bool:
    """Return whether a segment of `path` is ``.`` or ``..`` after one percent-decoding.

    Encoded slashes and backslashes also separate segments. Text after ``;`` in a segment is ignored, because some
    servers remove this text (RFC 3986 §3.3).
    """
    if "." not in path and "%2" not in path:
        return False
    return any(unquote(segment).partition(";")[0] in {".", ".."} for segment in _SEPARATOR.split(path))


# ── Reads nested names in a query, in the format that published clients use (docs/compatibility.md#requests).


def nested_parameters(query: Mapping[str, str], name: str) -> dict[str, str]:
    """Return nested query parameters: ``params[subdomain]=acme`` gives ``{"subdomain": "acme"}`` for ``params``."""
    prefix = name + "["
    return {key[len(prefix) : -1]: text for key, text in query.items() if key.startswith(prefix) and key.endswith("]")}


_TARGET: Final = re.compile(r"[!\"$-\[\]-~]*")  # printable ASCII without space, ``#`` and ``\\``


class ProxiedTarget(NamedTuple):
    """The part of a proxied call's target after the mount prefix and ``/proxy``.

    `path`: empty, or begins with ``/``. `query`: empty, or begins with ``?``.
    """

    path: str
    query: str


def origin_form(target: str, host: str) -> str:
    """Return the target without scheme and authority (RFC 9112 §3.2.1, §3.2.2); return ``*`` unchanged.

    `host`: the value of Host, which `request_head` has already checked.

    Raises InvalidRequest ``bad_framing`` if the authority of an absolute target differs from Host. A missing port
    equals the default port. A host that `parse_authority` refuses, such as ``my~gw``, must be the same text in the
    target and in Host.
    """
    if target.startswith(("/", "*")):
        return target
    absolute_match = ABSOLUTE.match(target)
    if absolute_match is not None:
        scheme, authority = absolute_match["scheme"].lower(), absolute_match["authority"]
        host_and_port = parse_authority(scheme, authority)
        if authority.lower() == host.lower() or (
            host_and_port is not None and host_and_port == parse_authority(scheme, host)
        ):
            path_and_query = target[absolute_match.end() :]
            return path_and_query if path_and_query.startswith("/") else f"/{path_and_query}"
    raise InvalidRequest(
        "bad_framing", "The target's authority is not the one in Host. Send the path alone.", close=True
    )


def parse_proxied_target(target: str, mount_prefix: str, shown_prefix: str | None = None) -> ProxiedTarget:
    """Return the path and the query to request from the provider.

    `mount_prefix`: the literal start of the target, for example ``/gateway/proxy``. `shown_prefix`: the text that
    replaces a secret `mount_prefix` in error messages; None shows `mount_prefix`.

    Raises InvalidRequest ``bad_path`` for a target with another start (``/%70roxy``), for dot segments in any encoding,
    and for characters that must be percent-encoded. Dot segments in the query are allowed.
    """
    if _TARGET.fullmatch(target) is None:
        raise InvalidRequest(
            "bad_path", "Percent-encode control characters, spaces, '\\', '#' and all that is not ASCII in the URL."
        )
    path_and_query = target.removeprefix(mount_prefix)
    if not target.startswith(mount_prefix) or path_and_query[:1] not in ("", "/", "?"):
        raise InvalidRequest("bad_path", f"The path must begin literally with {shown_prefix or mount_prefix}/.")
    path, question_mark, query = path_and_query.partition("?")
    if has_dot_segment(path):
        raise InvalidRequest("bad_path", "The path contains a '.' or '..' segment; send the path it resolves to.")
    return ProxiedTarget(path, question_mark + query)


def without_base(proxied_target: ProxiedTarget, base: ParsedUrl) -> ProxiedTarget:
    """Return `proxied_target`, without the base URL if the path is an absolute URL at or below `base`.

    Callers of Nango's SDKs pass absolute URLs as endpoints: ``/https://api.example.com/v1/users``. Absolute URLs of
    other origins, and all other paths, stay unchanged. Do not call this for a base URL with a secret: the response
    would show whether a guess of the secret is right.
    """
    if "://" not in proxied_target.path[:9]:  # true for nearly every path
        return proxied_target
    absolute_match = ABSOLUTE.match(proxied_target.path, 1)
    if absolute_match is None:
        return proxied_target
    scheme = absolute_match["scheme"].lower()
    authority, path = parse_authority(scheme, absolute_match["authority"]), proxied_target.path[absolute_match.end() :]
    if scheme != base.scheme or authority != (base.host, base.port) or not path.startswith(base.path):
        return proxied_target
    below_base = path.removeprefix(base.path)
    return ProxiedTarget(below_base, proxied_target.query) if below_base[:1] in ("", "/") else proxied_target


def join_target(base_path: str, proxied_target: ProxiedTarget) -> str:
    """Return the target of the request to the provider.

    `base_path`: the path of the base URL, without a trailing slash. `proxied_target`: the caller's path and query. An
    empty path means the base URL itself.
    """
    return (base_path + proxied_target.path or "/") + proxied_target.query


def with_query(target: str, slots: Iterable[tuple[str, str]], defaults: Iterable[tuple[str, str]]) -> str:
    """Return `target` with pairs of name and value added to its query.

    `slots`: pairs that replace the caller's pairs of the same name, in any encoding. `defaults`: pairs that are added
    only if the caller sent no pair of the same name. All names and values in `slots` and `defaults` must be
    percent-encoded. All other pairs keep their bytes.
    """
    path, _, query = target.partition("?")
    pairs = query.split("&") if query else []
    sent_names = [parameter_name(pair) for pair in pairs]
    added_pairs: list[str] = []
    replaced_names: set[str] = set()
    for name, value in slots:
        replaced_names.add(unquote_plus(name))
        added_pairs.append(f"{name}={value}")
    for name, value in defaults:
        if unquote_plus(name) not in sent_names and unquote_plus(name) not in replaced_names:
            added_pairs.append(f"{name}={value}")
    if not added_pairs:
        return target
    kept_pairs = [pair for pair, name in zip(pairs, sent_names, strict=True) if name not in replaced_names]
    return f"{path}?{'&'.join(kept_pairs + added_pairs)}"


def parameter_name(pair: str) -> str:
    """Return the decoded name in ``name=value``."""
    return unquote_plus(pair.partition("=")[0])

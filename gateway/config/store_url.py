"""Checks `store.url`, which names a SQLite file, or a PostgreSQL database as libpq does (PostgreSQL manual, 34.1.1.2)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from gateway.config.values import is_address, is_host_name

SQLITE: Final = "sqlite:///"
FILE_PARAMETERS: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
PARAMETERS: Final = frozenset(
    f"{' '.join(FILE_PARAMETERS)} sslmode sslpassword sslnegotiation ssl_min_protocol_version ssl_max_protocol_version "
    "host port target_session_attrs krbsrvname gsslib application_name search_path".split()
)
_HOST: Final = re.compile(r"(?:\[(?P<v6>[^][]+)]|(?P<name>[^][:]+))(?::(?P<port>\d{1,5}))?")
_VISIBLE: Final = re.compile(r"[!-~]+")


def check_store_url(text: str) -> str:
    """Return `text` if it is a valid store URL: ``sqlite:///path`` or ``postgresql://…/database``. Raises ValueError.

    A fourth slash after ``sqlite:`` makes the path absolute.
    """
    scheme, separator, path_and_parameters = text.partition("://")
    if not separator or scheme not in ("sqlite", "postgresql"):
        hint = "; write postgresql://" if scheme == "postgres" or scheme.startswith("postgresql+") else ""
        raise ValueError(f"must be sqlite:///gateway.db or postgresql://user:password@host/database{hint}")
    if scheme == "sqlite":
        _check_path(path_and_parameters)
    else:
        _check_postgres(text)
    return text


def with_absolute_paths(url: str, base: Path) -> str:
    """Return the URL with its relative file paths resolved against `base`."""
    if url.startswith(SQLITE):
        return SQLITE + os.path.normpath(base / url.removeprefix(SQLITE))
    url_without_query, question_mark, query = url.partition("?")
    return url_without_query + question_mark + "&".join(_absolute_pair(pair, base) for pair in query.split("&"))


def _absolute_pair(pair: str, base: Path) -> str:
    name, _, value = pair.partition("=")
    return f"{name}={quote(str(base / unquote(value)))}" if name in FILE_PARAMETERS else pair


def is_unverified_remote(url: str) -> bool:
    """Return whether the database is on another machine and its certificate is not verified."""
    if url.startswith(SQLITE):
        return False
    parts = urlsplit(url)
    parameters = dict(parse_qsl(parts.query))
    hosts = [name for name, _ in _hosts(parts)] or parameters.get("host", "/").split(",")
    return parameters.get("sslmode") not in ("verify-ca", "verify-full") and not all(map(_is_local, hosts))


def _is_local(host: str) -> bool:
    return host.startswith(("/", "127.")) or host in ("localhost", "::1")


def _check_path(path_text: str) -> None:
    if not path_text.startswith("/"):
        raise ValueError("must have three slashes before the path: sqlite:///gateway.db")
    path = path_text[1:]
    if path in ("", ":memory:") or path.endswith("/"):
        raise ValueError("names no file; a store in memory would lose every connection at a restart")
    if "?" in path or "#" in path or not path.isprintable():
        raise ValueError("must be a plain path: no parameters, no '?' and no '#'")


def _check_postgres(text: str) -> None:
    """Raise ValueError if `text` is not a valid PostgreSQL URL. Messages never repeat text that could be a password."""
    if not _VISIBLE.fullmatch(text) or "#" in text or "\\" in text:
        raise ValueError("must be in ASCII, without spaces and '#': write %23 for a '#' in the password")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("must be postgresql://user:password@host/database") from None
    if parts.netloc.count("@") > 1:
        raise ValueError("has more than one '@': write %40 for one in the password")
    for name, port in _hosts(parts):
        if not (is_host_name(name) or is_address(name)) or not 0 < port < 65536:
            raise ValueError("must be postgresql://user:password@host/database, with %2F for a '/' in the password")
    if not unquote(parts.path).strip("/"):
        raise ValueError("names no database: postgresql://user:password@host/database")
    _check_parameters(parts)


def _hosts(parts: SplitResult) -> Iterator[tuple[str, int]]:
    """Yield each host and port. Yield nothing if only the parameters name hosts.

    A host that cannot be parsed is yielded as an empty name with port 0.
    """
    host_list = parts.netloc.rpartition("@")[2]
    for host in host_list.split(",") if host_list else ():
        match = _HOST.fullmatch(host)
        yield ("", 0) if match is None else (unquote(match["v6"] or match["name"]), int(match["port"] or 5432))


def _check_parameters(parts: SplitResult) -> None:
    try:
        parameters = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise ValueError("has parameters that are not name=value, with '&' between them") from None
    if unknown_names := sorted(parameters.keys() - PARAMETERS):
        raise ValueError(f"has parameters that are not known here: {', '.join(unknown_names)}; leave them out")
    if parameters.get("sslmode", "prefer") not in SSL_MODES:
        raise ValueError(f"has an unknown sslmode; write one of {', '.join(SSL_MODES)}")
    if not parameters.get("port", "5432").replace(",", "").isdigit():
        raise ValueError("has a port that is not a number")

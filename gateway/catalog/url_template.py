"""Parses URL templates into scheme, host, port, path and query.

Each part is a sequence of literal texts and placeholders. Literal text is never changed, so a host always ends with the
literal text of the entry. `catalog.render` decides which values can replace the placeholders.
"""

from dataclasses import dataclass
from functools import lru_cache

from gateway.catalog.template import Name, TemplateError, parse_template
from gateway.catalog.value import is_hostname, is_web_url

Piece = str | Name


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A parsed URL template. `query` begins with ``?``.

    `whole_base_url`: the placeholder for the whole base URL, if the template begins with a placeholder; None if the
    template begins with a scheme. With `whole_base_url`, scheme, host and port are empty.
    """

    scheme: str
    whole_base_url: Name | None
    host: tuple[Piece, ...]
    port: Piece | None
    path: tuple[Piece, ...]
    query: tuple[Piece, ...]


@lru_cache(maxsize=4096)
def parse_url_template(template: str) -> UrlTemplate:
    """Parse `template`. Raises TemplateError if no values can make it a safe http or https URL."""
    pieces = _pieces(template)
    if pieces and isinstance(pieces[0], Name):
        path, query = _split_before(pieces[1:], "?")
        if path and not str(path[0]).startswith("/"):
            raise TemplateError("after a placeholder for the whole base URL, the path must begin with '/'")
        return UrlTemplate("", pieces[0], (), None, path, query)
    scheme, separator, after_scheme = str(pieces[0] if pieces else "").partition("://")
    if scheme.lower() not in {"http", "https"} or not separator:
        raise TemplateError("a URL must begin with https://, or with http:// if egress.allow names its network")
    authority, tail = _split_before((after_scheme, *pieces[1:]) if after_scheme else pieces[1:], "/?")
    host, port = _host_and_port(authority)
    path, query = _split_before(tail, "?")
    return UrlTemplate(scheme.lower(), None, host, port, path, query)


def _pieces(template: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for part in parse_template(template).parts:
        if not isinstance(part, (str, Name)):
            raise TemplateError("functions, ${now} and ${random} are not allowed in a URL")
        if isinstance(part, str) and (invalid_character := next((c for c in part if not _fits_url(c)), None)):
            raise TemplateError(f"{invalid_character!r} is not allowed in a URL")
        pieces.append(part)
    return tuple(pieces)


def _fits_url(char: str) -> bool:
    # "#" is not allowed, because a fragment is never sent. "\" is not allowed, because some parsers read it as "/".
    return "!" <= char <= "~" and char not in '#\\"<>^`{|}'


def _split_before(pieces: tuple[Piece, ...], characters: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Split `pieces` before the first literal character that is in `characters`."""
    for index, piece in enumerate(pieces):
        if (
            isinstance(piece, str)
            and (split_at := next((i for i, c in enumerate(piece) if c in characters), None)) is not None
        ):
            pieces_before = (*pieces[:index], piece[:split_at]) if split_at else pieces[:index]
            return pieces_before, (piece[split_at:], *pieces[index + 1 :])
    return pieces, ()


def _host_and_port(authority: tuple[Piece, ...]) -> tuple[tuple[Piece, ...], Piece | None]:
    if any(isinstance(piece, str) and "@" in piece for piece in authority):
        raise TemplateError("user information ('name@') is not allowed in a URL; use proxy.headers")
    host, port = _split_port(authority)
    if not host:
        raise TemplateError("the URL has no host")
    # Each placeholder is replaced by a sample label, to check the literal text around it.
    sample = "".join(piece if isinstance(piece, str) else "x" for piece in host).lower()
    if sample.startswith("*."):  # `catalog.checks` decides where a wildcard is allowed
        sample = f"x{sample[1:]}"
    if not is_hostname(sample) and not (sample.startswith("[") and is_web_url(f"http://{sample}/")):
        raise TemplateError(f"{sample!r} is not a host name")
    if isinstance(port, str) and not is_port(port):
        raise TemplateError(f"{port!r} is not a port")
    return host, port


def _split_port(authority: tuple[Piece, ...]) -> tuple[tuple[Piece, ...], Piece | None]:
    if not authority:
        return (), None
    *earlier_pieces, last_piece = authority
    if isinstance(last_piece, str):
        name, colon, port = last_piece.rpartition(":")
        if colon and "]" not in port:
            return ((*earlier_pieces, name) if name else tuple(earlier_pieces)), port
    elif earlier_pieces and isinstance(earlier_pieces[-1], str) and earlier_pieces[-1].endswith(":"):
        name = earlier_pieces[-1][:-1]
        return ((*earlier_pieces[:-1], name) if name else tuple(earlier_pieces[:-1])), last_piece
    return authority, None


def is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535

"""Parses Link fields (RFC 8288), and rewrites links into the provider's API so that they go through the gateway.

Otherwise, clients that follow absolute links to the next page would send the gateway's secret key to the provider.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.http.origin import ABSOLUTE, Address, parse_authority
from gateway.http.url import name_of

# ── Parses a Link field (RFC 8288 §3) in one pass, for any input.

# If a closing character is missing, its alternative matches to the end of the field, so the search is over. Otherwise
# each `<` or `"` would start a search to the end, in quadratic time.
_PIECE: Final = re.compile(
    r'<(?P<target>[^>]++)(?:>(?P<params>(?:[^,"<]++|"(?:[^"\\]++|\\.)*+")*+)|\Z)'
    r'|"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?+\Z))',
    re.DOTALL,
)
# After a quote that is never closed, quotes have no meaning.
_PIECE_BEHIND: Final = re.compile(r'<(?P<target>[^>]++)(?:>(?P<params>[^,"<]*+)|\Z)')


class LinkValue(NamedTuple):
    """A link-value: its target is ``value[start:end]``, `params` is the text after it, up to the next link."""

    start: int
    end: int
    params: str


def links_in(value: str) -> Iterator[LinkValue]:
    """Yield all links of a Link field. A `<` inside quotes does not begin a link."""
    behind: int | None = None
    for found in _PIECE.finditer(value):
        if found["params"] is not None:
            yield LinkValue(*found.span("target"), found["params"])
        elif found["open"] is not None:
            behind = found.start() + 1
    if behind is not None:
        for found in _PIECE_BEHIND.finditer(value, behind):
            if found["params"] is not None:
                yield LinkValue(*found.span("target"), found["params"])


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites references below `base`, the provider's base URL, to `shown_at`, the gateway's URL for it.

    `shown_at` is absolute, without a trailing slash: ``https://gw.example.com/proxy``. `injected`: decoded names of the
    query parameters in which the gateway adds the credential; a provider that builds links from the requested URL
    repeats them.
    """

    base: Address
    shown_at: str
    injected: frozenset[str] = frozenset()

    def __call__(self, name: str, value: str) -> str:
        """Return the value to send for ``link``, ``location`` or ``content-location``; ``refresh`` stays as it is."""
        if name == "refresh":
            return value
        return self.in_links(value) if name == "link" else self.reference(value)

    def in_links(self, value: str) -> str:
        """Rewrite every target of a Link field (RFC 8288); parameters stay as they are."""
        pieces: list[str] = []
        at = 0
        for link in links_in(value):
            pieces += (value[at : link.start], self.reference(value[link.start : link.end]))
            at = link.end
        return "".join((*pieces, value[at:]))

    def reference(self, reference: str) -> str:
        """Rewrite one URI reference (RFC 3986 §4.1). A reference to another origin stays; from a reference that is
        relative to the request's path, only the credential is removed.

        A path from the root is resolved here, since the caller would resolve it against the gateway's root.
        """
        text = reference.strip()
        absolute = ABSOLUTE.match(text) or ABSOLUTE.match(f"{self.base.scheme}:{text}" if text.startswith("//") else "")
        if absolute is not None:
            scheme = absolute["scheme"].lower()
            if scheme != self.base.scheme or parse_authority(scheme, absolute["authority"]) != (
                self.base.host,
                self.base.port,
            ):
                return reference
            rest = absolute.string[absolute.end() :]
        elif text.startswith("/"):
            rest = text
        else:
            return self._without_credential(reference)
        below = rest.removeprefix(self.base.path)
        if not rest.startswith(self.base.path) or below[:1] not in ("", "/", "?", "#"):
            return self._without_credential(reference)
        return self.shown_at + self._without_credential(below)

    def _without_credential(self, reference: str) -> str:
        """Return the reference without the query pairs that the gateway added; all else stays byte for byte."""
        if not self.injected or "?" not in reference:
            return reference
        url, hash_sign, fragment = reference.partition("#")
        path, _, query = url.partition("?")
        pairs = query.split("&")
        kept = [pair for pair in pairs if name_of(pair) not in self.injected]
        if len(kept) == len(pairs):
            return reference
        return f"{path}?{'&'.join(kept)}{hash_sign}{fragment}" if kept else f"{path}{hash_sign}{fragment}"


# ── Masks the credential in redirects: a redirect to another host or to a login page may repeat the request's URL, and
# with it the credential that the gateway added.

MASK: Final = "***"
_ESCAPED: Final = re.compile(rb"%(?:25)*([0-9A-Fa-f]{2})")  # %2541 is an A that was encoded twice


def mask_secrets(reference: str, secrets: Collection[str]) -> str:
    """Return `reference` with `secrets` masked in any percent-encoding, also in a URL encoded inside the URL."""
    seen, starts = _read(reference)
    wanted = {form for text in secrets for form in (_read(text)[0], _alike(text.encode(errors="surrogateescape")))}
    spans = sorted((starts[at], starts[at + len(form)]) for form in wanted for at in _places(seen, form))
    if not spans:
        return reference
    raw, masked, done = reference.encode(errors="surrogateescape"), bytearray(), 0
    for start, end in spans:
        if start >= done:
            masked += raw[done:start] + MASK.encode()
        done = max(done, end)
    return bytes(masked + raw[done:]).decode(errors="surrogateescape")


def _read(text: str) -> tuple[bytes, list[int]]:
    """Return `text` decoded for comparison, and the position in `text` of each decoded byte and of the end."""
    raw = text.encode(errors="surrogateescape")
    seen = bytearray()
    starts: list[int] = []
    at = 0
    for found in _ESCAPED.finditer(raw):
        seen += raw[at : found.start()]
        starts += range(at, found.start() + 1)
        seen.append(int(found[1], 16))
        at = found.end()
    starts += range(at, len(raw) + 1)
    return _alike(bytes(seen + raw[at:])), starts


def _alike(raw: bytes) -> bytes:
    """Return the text normalized for comparison: lower case, like hosts, and a space for each plus, like forms."""
    return raw.lower().replace(b"+", b" ")


def _places(text: bytes, part: bytes) -> Iterator[int]:
    at = text.find(part) if part else -1
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))

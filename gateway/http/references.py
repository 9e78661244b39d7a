"""Link fields (RFC 8288), and links in an answer that lead back into the provider's API, turned to lead through us.

Clients that page by absolute links would otherwise send our secret key to the provider.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.http.origin import ABSOLUTE, Address, parse_authority
from gateway.http.url import name_of

# ── Reads a Link field (RFC 8288 §3) in one pass, whatever a provider writes there.

# Every alternative also matches up to the end of the field where its closing character is missing. The next search then
# begins behind it; otherwise each `<` or `"` would be searched to the end, and the time would grow with the square.
_PIECE: Final = re.compile(
    r'<(?P<target>[^>]++)(?:>(?P<params>(?:[^,"<]++|"(?:[^"\\]++|\\.)*+")*+)|\Z)'
    r'|"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?+\Z))',
    re.DOTALL,
)
# Behind a quote that is never closed, quotes mean nothing.
_PIECE_BEHIND: Final = re.compile(r'<(?P<target>[^>]++)(?:>(?P<params>[^,"<]*+)|\Z)')


class LinkValue(NamedTuple):
    """A link-value: its target is ``value[start:end]``, `params` is the text behind it up to the next link."""

    start: int
    end: int
    params: str


def links_in(value: str) -> Iterator[LinkValue]:
    """All links of a Link field. A `<` within a quoted text begins no link."""
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
    """Rewrites references into `base`, the address that requests under `shown_at` are sent to.

    `shown_at` is ours, absolute and without a trailing slash: ``https://gw.example.com/proxy``. `injected` are the names
    in the query under which we put the credential, decoded: a provider that writes links from the address it was asked
    for gives it back in them.
    """

    base: Address
    shown_at: str
    injected: frozenset[str] = frozenset()

    def __call__(self, name: str, value: str) -> str:
        """The field's value to send. `name` is ``link``, ``location``, ``content-location`` or ``refresh``, which stays."""
        if name == "refresh":
            return value
        return self.in_links(value) if name == "link" else self.reference(value)

    def in_links(self, value: str) -> str:
        """Every target of a Link field (RFC 8288); parameters stay as they are."""
        pieces: list[str] = []
        at = 0
        for link in links_in(value):
            pieces += (value[at : link.start], self.reference(value[link.start : link.end]))
            at = link.end
        return "".join((*pieces, value[at:]))

    def reference(self, reference: str) -> str:
        """Rewrite one URI reference (RFC 3986 §4.1). What leads elsewhere stays; what is relative to the request's path
        loses no more than the credential.

        A path from the root is resolved here, since the caller would resolve it against our own root.
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
        """Return the reference without the pairs that we put into the query; the others stay byte for byte, and so does a
        fragment."""
        if not self.injected or "?" not in reference:
            return reference
        address, hash_sign, fragment = reference.partition("#")
        path, _, query = address.partition("?")
        pairs = query.split("&")
        kept = [pair for pair in pairs if name_of(pair) not in self.injected]
        if len(kept) == len(pairs):
            return reference
        return f"{path}?{'&'.join(kept)}{hash_sign}{fragment}" if kept else f"{path}{hash_sign}{fragment}"


# ── The credential in what a provider sends back: redirects to another host or to a login page repeat the address of the
# request, and with it the credential that the gateway put there.

MASK: Final = "***"
_ESCAPED: Final = re.compile(rb"%(?:25)*([0-9A-Fa-f]{2})")  # %2541 is an A that was encoded twice


def mask_secrets(reference: str, secrets: Collection[str]) -> str:
    """`reference` with `secrets` masked, in whichever percent-encoding, also an address encoded within an address."""
    seen, starts = _read(reference)
    wanted = {form for one in secrets for form in (_read(one)[0], _alike(one.encode(errors="surrogateescape")))}
    spans = sorted((starts[at], starts[at + len(one)]) for one in wanted for at in _places(seen, one))
    if not spans:
        return reference
    raw, masked, done = reference.encode(errors="surrogateescape"), bytearray(), 0
    for start, end in spans:
        if start >= done:
            masked += raw[done:start] + MASK.encode()
        done = max(done, end)
    return bytes(masked + raw[done:]).decode(errors="surrogateescape")


def _read(text: str) -> tuple[bytes, list[int]]:
    """`text` decoded, for comparing; and where each byte of that begins in it, and its end."""
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
    """Return the text in lower case, as hosts are, and with a plus as a space, as forms have it."""
    return raw.lower().replace(b"+", b" ")


def _places(text: bytes, part: bytes) -> Iterator[int]:
    at = text.find(part) if part else -1
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))

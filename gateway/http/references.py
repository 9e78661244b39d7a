"""Parses Link fields (RFC 8288), and rewrites links to the provider's API into links to the gateway.

Without the rewriting, a client that follows an absolute link to the next page would send its secret key for the gateway
to the provider.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.http.url import parameter_name
from gateway.origin import ABSOLUTE, ParsedUrl, parse_authority

# ── Parses a Link field (RFC 8288 §3), in linear time for any input.

# If a closing character is missing, the pattern matches up to the end of the field, which ends the search. Without this
# rule, each `<` or `"` would start another search up to the end, which takes quadratic time.
_PIECE: Final = re.compile(
    r'<(?P<target>[^>]++)(?:>(?P<params>(?:[^,"<]++|"(?:[^"\\]++|\\.)*+")*+)|\Z)'
    r'|"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?+\Z))',
    re.DOTALL,
)
# Used after a quote that is never closed, because quotes have no meaning there.
_PIECE_IGNORING_QUOTES: Final = re.compile(r'<(?P<target>[^>]++)(?:>(?P<params>[^,"<]*+)|\Z)')


class LinkValue(NamedTuple):
    """One link of a Link field.

    `start`, `end`: the position of the link's target in the field. `params`: the text between the target and the next
    link.
    """

    start: int
    end: int
    params: str


def links_in(value: str) -> Iterator[LinkValue]:
    """Yield all links in the value of a Link field. A `<` inside quotes does not begin a link."""
    unclosed_quote: int | None = None
    for match in _PIECE.finditer(value):
        if match["params"] is not None:
            yield LinkValue(*match.span("target"), match["params"])
        elif match["open"] is not None:
            unclosed_quote = match.start() + 1
    if unclosed_quote is not None:
        for match in _PIECE_IGNORING_QUOTES.finditer(value, unclosed_quote):
            if match["params"] is not None:
                yield LinkValue(*match.span("target"), match["params"])


@dataclass(frozen=True, slots=True)
class LinkRewriter:
    """Rewrites references to the provider's API into references to the gateway.

    `base`: the provider's base URL. `gateway_url`: the gateway's absolute URL for the base URL, without a trailing
    slash, such as ``https://gw.example.com/proxy``. `credential_parameters`: the decoded names of the query parameters
    in which the gateway sends the credential. These parameters are removed from references, because a provider that
    builds links from the requested URL repeats them.
    """

    base: ParsedUrl
    gateway_url: str
    credential_parameters: frozenset[str] = frozenset()

    def __call__(self, name: str, value: str) -> str:
        """Return the rewritten value of the field ``link``, ``location`` or ``content-location``.

        The field ``refresh`` stays unchanged.
        """
        if name == "refresh":
            return value
        return self.rewrite_links(value) if name == "link" else self.rewrite_reference(value)

    def rewrite_links(self, value: str) -> str:
        """Rewrite every target in the value of a Link field (RFC 8288). The links' parameters stay unchanged."""
        pieces: list[str] = []
        copied_to = 0
        for link in links_in(value):
            pieces += (value[copied_to : link.start], self.rewrite_reference(value[link.start : link.end]))
            copied_to = link.end
        return "".join((*pieces, value[copied_to:]))

    def rewrite_reference(self, reference: str) -> str:
        """Rewrite one URI reference (RFC 3986 §4.1).

        A URL below the base URL becomes a URL of the gateway. So does a path from the root, because the caller would
        resolve it against the gateway's root. Other references to the provider, such as relative ones, lose only the
        credential. A reference to another origin stays unchanged.
        """
        text = reference.strip()
        absolute_match = ABSOLUTE.match(text) or ABSOLUTE.match(
            f"{self.base.scheme}:{text}" if text.startswith("//") else ""
        )
        if absolute_match is not None:
            scheme = absolute_match["scheme"].lower()
            if scheme != self.base.scheme or parse_authority(scheme, absolute_match["authority"]) != (
                self.base.host,
                self.base.port,
            ):
                return reference
            path_and_query = absolute_match.string[absolute_match.end() :]
        elif text.startswith("/"):
            path_and_query = text
        else:
            return self._without_credential(reference)
        below_base = path_and_query.removeprefix(self.base.path)
        if not path_and_query.startswith(self.base.path) or below_base[:1] not in ("", "/", "?", "#"):
            return self._without_credential(reference)
        return self.gateway_url + self._without_credential(below_base)

    def _without_credential(self, reference: str) -> str:
        """Return the reference without the query parameters that the gateway added. All other bytes stay unchanged."""
        if not self.credential_parameters or "?" not in reference:
            return reference
        url, hash_sign, fragment = reference.partition("#")
        path, _, query = url.partition("?")
        pairs = query.split("&")
        kept_pairs = [pair for pair in pairs if parameter_name(pair) not in self.credential_parameters]
        if len(kept_pairs) == len(pairs):
            return reference
        return f"{path}?{'&'.join(kept_pairs)}{hash_sign}{fragment}" if kept_pairs else f"{path}{hash_sign}{fragment}"


# ── Masks the credential in redirects. A redirect to another host or to a login page can repeat the request's URL,
# which contains the credential that the gateway added.

MASK: Final = "***"
_ESCAPED: Final = re.compile(rb"%(?:25)*([0-9A-Fa-f]{2})")  # also matches text that was encoded twice: %2541 is an A


def mask_secrets(reference: str, secrets: Collection[str]) -> str:
    """Return `reference` with `secrets` masked, in any percent-encoding.

    Also masks a secret in a URL that is encoded inside the URL.
    """
    decoded, starts = _decode(reference)
    normalized_secrets = {
        secret for text in secrets for secret in (_decode(text)[0], _normalize(text.encode(errors="surrogateescape")))
    }
    spans = sorted(
        (starts[position], starts[position + len(secret)])
        for secret in normalized_secrets
        for position in _positions(decoded, secret)
    )
    if not spans:
        return reference
    reference_bytes, masked_bytes, written_to = reference.encode(errors="surrogateescape"), bytearray(), 0
    for start, end in spans:
        if start >= written_to:
            masked_bytes += reference_bytes[written_to:start] + MASK.encode()
        written_to = max(written_to, end)
    return bytes(masked_bytes + reference_bytes[written_to:]).decode(errors="surrogateescape")


def _decode(text: str) -> tuple[bytes, list[int]]:
    """Return `text` decoded for comparison, and the positions of the decoded bytes in `text`.

    The last position is the end of `text`.
    """
    text_bytes = text.encode(errors="surrogateescape")
    decoded = bytearray()
    starts: list[int] = []
    copied_to = 0
    for match in _ESCAPED.finditer(text_bytes):
        decoded += text_bytes[copied_to : match.start()]
        starts += range(copied_to, match.start() + 1)
        decoded.append(int(match[1], 16))
        copied_to = match.end()
    starts += range(copied_to, len(text_bytes) + 1)
    return _normalize(bytes(decoded + text_bytes[copied_to:])), starts


def _normalize(text: bytes) -> bytes:
    """Return the text normalized for comparison.

    The text becomes lower case, because hosts are not case-sensitive. Each plus becomes a space, because forms encode a
    space as a plus.
    """
    return text.lower().replace(b"+", b" ")


def _positions(text: bytes, part: bytes) -> Iterator[int]:
    position = text.find(part) if part else -1
    while position >= 0:
        yield position
        position = text.find(part, position + len(part))

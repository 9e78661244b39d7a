"""Links in a provider's answer that lead back into its API, turned so that they lead through us.

Clients that page by absolute links would otherwise send our secret key to the provider.
"""

from dataclasses import dataclass

from gateway.wire.link_field import links_in
from gateway.wire.origin import ABSOLUTE, Address, parse_authority
from gateway.wire.url import name_of


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
        """The field's value to send. `name` is ``link``, ``location`` or ``content-location``."""
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
        """One URI reference (RFC 3986 §4.1). What leads elsewhere stays; what is relative to the request's path loses
        no more than the credential.

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
        """It less the pairs that we put into the query; the others stay byte for byte, and so does a fragment."""
        if not self.injected or "?" not in reference:
            return reference
        address, hash_sign, fragment = reference.partition("#")
        path, _, query = address.partition("?")
        pairs = query.split("&")
        kept = [pair for pair in pairs if name_of(pair) not in self.injected]
        if len(kept) == len(pairs):
            return reference
        return f"{path}?{'&'.join(kept)}{hash_sign}{fragment}" if kept else f"{path}{hash_sign}{fragment}"

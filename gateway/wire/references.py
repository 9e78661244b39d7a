"""Links in a provider's answer that lead back into its API, turned so that they lead through us.

Clients that page by absolute links would otherwise send our secret key to the provider.
"""

import re
from dataclasses import dataclass
from typing import Final

from gateway.wire.origin import ABSOLUTE, Address, parse_authority

# A quoted parameter is matched first, so that a '<' inside it is not taken for a target (RFC 8288 §3).
_LINK_TARGET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|<(?P<target>[^>]*)>')


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites references into `base`, the address that requests under `shown_at` are sent to.

    `shown_at` is ours, absolute and without a trailing slash: ``https://gw.example.com/proxy``.
    """

    base: Address
    shown_at: str

    def __call__(self, name: str, value: str) -> str:
        """The field's value to send. `name` is ``link``, ``location`` or ``content-location``."""
        return self.in_links(value) if name == "link" else self.reference(value)

    def in_links(self, value: str) -> str:
        """Every target of a Link field (RFC 8288); parameters stay as they are."""

        def target(found: re.Match[str]) -> str:
            return found[0] if found["target"] is None else f"<{self.reference(found['target'])}>"

        return _LINK_TARGET.sub(target, value)

    def reference(self, reference: str) -> str:
        """One URI reference (RFC 3986 §4.1). What leads elsewhere, or is relative to the request's path, stays.

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
            return reference
        below = rest.removeprefix(self.base.path)
        if not rest.startswith(self.base.path) or below[:1] not in ("", "/", "?", "#"):
            return reference
        return self.shown_at + below

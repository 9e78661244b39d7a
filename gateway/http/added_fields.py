"""Fields that we add to a provider's answer: against harm in browsers and caches, and Server-Timing.

The document gets an origin of its own and runs no script (CSP ``sandbox``), and nothing is sniffed into one. Policies of the
provider stay: several combine to the strictest. Programs notice none of it.
"""

from collections.abc import Sequence
from typing import Final

from multidict import istr

from gateway.http.fields import Fields

VARY: Final = "Vary"
NOT_RENDERED: Final[Fields] = [("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox")]
CALLED_BY: Final = ("Authorization", "Connection-Id", "Provider-Config-Key", "Base-Url-Override")
"""What chooses the credential and the provider besides the address: answers differ by it (RFC 9110 §12.5.5)."""


_OURS_ALONE: Final = ", ".join(CALLED_BY)


def guarded(fields: Fields, *, by_headers: bool) -> Fields:
    """`fields` of an answer, and ours. `by_headers`: the call named its connection in headers, not in its address."""
    theirs = [field for field in fields if len(field[0]) == 4 and field[0].lower() == "vary"]
    if theirs:
        fields = [field for field in fields if field not in theirs]
    if not by_headers:
        return [*fields, *theirs, *NOT_RENDERED]
    return [*fields, *NOT_RENDERED, (VARY, vary([value for _, value in theirs]) if theirs else _OURS_ALONE)]


def vary(theirs: Sequence[str]) -> str:
    """The provider's `Vary` and ours in one line, since some caches read only one; ``*`` says all there is to say."""
    names = {name.lower(): name for name in (part.strip() for value in theirs for part in value.split(",")) if name}
    if "*" in names:
        return "*"
    return ", ".join((*names.values(), *(name for name in CALLED_BY if name.lower() not in names)))


ATTEMPTS: Final = istr("Gateway-Attempts")
"""How often the call was sent to the provider."""

CONNECT_URL_FIELD: Final = istr("Gateway-Connect-Url")
"""On a 403 that asks for scopes: the link by which the end user grants them."""

# ── ``Server-Timing``: where the time of a proxied call went (W3C Server Timing, §4).

SERVER_TIMING: Final = istr("Server-Timing")


def server_timing(gateway_ms: float, token_ms: float, upstream_ms: float) -> str:
    """The field's value; milliseconds, with two places."""
    token = f"{token_ms:.2f}" if token_ms else "0"
    return f"gateway;dur={gateway_ms:.2f}, token;dur={token}, upstream;dur={upstream_ms:.2f}"

"""How the integration's client shows itself to the token endpoint (RFC 6749 §2.3.1): exactly one way a request."""

import base64
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from gateway.secret import Secret

BASIC_AND_ID: Final = "basic_and_id"  # RFC 6749 §3.2.1 allows the ID as a parameter besides; it proves nothing
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Client:
    """The OAuth client that an integration configured. A public client has no secret.

    `assertion`: the signed proof that stands in for a secret (RFC 7523 §2.2), made for one request.
    """

    client_id: str
    client_secret: Secret | None = field(default=None, repr=False)
    assertion: Secret | None = field(default=None, repr=False)

    def secrets(self) -> tuple[str, ...]:
        """What an answer may quote and nobody may see."""
        return tuple(one.reveal() for one in (self.client_secret, self.assertion) if one is not None)


def authenticate(
    client: Client, method: str | None, headers: MutableMapping[str, str], params: MutableMapping[str, str]
) -> None:
    """Write the client's identity into `headers` (``basic``) or `params` (``body``, also when the entry says nothing).

    ``private_key_jwt`` sends the assertion, ``custom`` nothing, since the entry's own parameters do it. A client without
    a secret is public and sends only its `client_id` in the body (RFC 6749 §3.2.1).
    """
    if method == "custom":
        return
    if client.assertion is not None:
        params["client_id"] = client.client_id
        params["client_assertion_type"] = ASSERTION_TYPE
        params["client_assertion"] = client.assertion.reveal()
    elif client.client_secret is None or method == "none":
        params["client_id"] = client.client_id
    elif method in {"basic", BASIC_AND_ID}:
        if method == BASIC_AND_ID:
            params["client_id"] = client.client_id
        # Both halves are form-encoded before they are joined, so that a colon in the ID cannot split them (RFC 6749 §2.3.1).
        # A space is %20 and not +: each form decoder reads it, and so do servers that only decode percent signs (Authlib).
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret.reveal(), safe='')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    else:
        params["client_id"] = client.client_id
        params["client_secret"] = client.client_secret.reveal()

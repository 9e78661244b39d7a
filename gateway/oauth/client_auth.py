"""How the integration's client shows itself to the token endpoint (RFC 6749 §2.3.1): exactly one way a request."""

import base64
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus

from gateway.secret import Secret


@dataclass(frozen=True, slots=True)
class Client:
    """The OAuth client that an integration configured. A public client has no secret."""

    client_id: str
    client_secret: Secret | None = field(default=None, repr=False)


def authenticate(
    client: Client, method: str | None, headers: MutableMapping[str, str], params: MutableMapping[str, str]
) -> None:
    """Write the client's identity into `headers` (``basic``) or `params` (``body``, also when the entry says nothing).

    A client without a secret is public and sends only its `client_id` in the body (RFC 6749 §3.2.1).
    """
    if client.client_secret is None:
        params["client_id"] = client.client_id
    elif method == "basic":
        # Both halves are form-encoded before they are joined, so that a colon in the ID cannot split them (RFC 6749 §2.3.1).
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret.reveal())}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    else:
        params["client_id"] = client.client_id
        params["client_secret"] = client.client_secret.reveal()

"""How a client that nobody registered by hand comes to an ID: by request (RFC 7591), or as the address of a document of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from gateway.auth.answers import accepted_answer
from gateway.auth.context import Context
from gateway.auth.mode import Dialogue
from gateway.oauth.requests import encoded
from gateway.oauth.token import TokenRefused

NAME: Final = "Integration gateway"
OURS: Final[Mapping[str, str]] = {"client_secret_basic": "basic", "client_secret_post": "body", "none": "none"}
PREFERRED: Final = ("none", "client_secret_basic", "client_secret_post")


@dataclass(frozen=True, slots=True)
class Registered:
    """A client, and how it proves itself: ``basic``, ``body`` or ``none``, as the catalog spells it."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str = "none"


def document_url(context: Context) -> str:
    """Where `metadata_document` is served; this address is the client ID."""
    integration = context.integration
    place = f"{quote(integration.environment, safe='')}/{quote(integration.integration_id, safe='')}"
    return f"{context.public_url}/oauth/client-metadata/{place}"


def metadata_document(context: Context) -> dict[str, Any]:
    """Who we are, for servers that read it at the address that is the client ID."""
    return {"client_id": document_url(context), **_metadata(context, "none"), "client_uri": context.public_url}


def _metadata(context: Context, auth_method: str) -> dict[str, Any]:
    """RFC 7591 §2."""
    return {
        "client_name": context.integration.display_name or NAME,
        "redirect_uris": [context.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth_method,
    }


def registered(
    context: Context, url: str, methods: Sequence[str] | None, scopes: Sequence[str]
) -> Dialogue[Registered]:
    """A new client of the server (RFC 7591 §3). `methods`: how it lets clients prove themselves, None where it does not say.

    Raises TokenRefused where it registers nobody.
    """
    wanted = next((method for method in PREFERRED if methods is None or method in methods), "client_secret_basic")
    asked: dict[str, Any] = {**_metadata(context, wanted), **({"scope": " ".join(scopes)} if scopes else {})}
    reply = yield encoded("POST", url, {"Accept": "application/json"}, asked, "json")
    answer = accepted_answer(reply)
    client_id, secret = answer.get("client_id"), answer.get("client_secret")
    if not isinstance(client_id, str) or not client_id:
        raise TokenRefused("invalid_client", "its registration endpoint answered without a client_id")
    secret = secret if isinstance(secret, str) and secret else None
    given = answer.get("token_endpoint_auth_method") or (wanted if secret is None else "client_secret_basic")
    return Registered(client_id, secret, OURS.get(str(given), "body") if secret else "none")

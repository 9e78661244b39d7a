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
# RFC 7591 §2 ▸ as the catalog spells it, the preferred one first. A public client with PKCE has no secret to lose; servers
# made with the MCP Python SDK read the client ID from the body only, where client_secret_post has it.
METHODS: Final[Mapping[str, str]] = {"none": "none", "client_secret_post": "body", "client_secret_basic": "basic"}
SPELLED: Final[Mapping[str, str]] = {spelling: method for method, spelling in METHODS.items()}


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


def secret_method(context: Context, methods: Sequence[str] | None) -> str:
    """How a client with a secret proves itself: as the entry says, else as the server supports, else ``body``."""
    offered = (SPELLED[one] for one in ("body", "basic"))
    supported = next((METHODS[one] for one in offered if methods is None or one in methods), "body")
    return context.provider.token_request_auth_method or supported


def registered(
    context: Context, url: str, methods: Sequence[str] | None, scopes: Sequence[str]
) -> Dialogue[Registered]:
    """A new client of the server (RFC 7591 §3). `methods`: those that the server supports, None if nothing says which.

    The entry's `token_request_auth_method` decides; without it the server's answer does, which may name another method
    than the one that was asked for. Raises TokenRefused where it registers nobody.
    """
    chosen = context.provider.token_request_auth_method
    supported = (method for method in METHODS if methods is None or method in methods)
    wanted = SPELLED.get(chosen or "") or next(supported, "client_secret_basic")
    asked: dict[str, Any] = {**_metadata(context, wanted), **({"scope": " ".join(scopes)} if scopes else {})}
    reply = yield encoded("POST", url, {"Accept": "application/json"}, asked, "json")
    answer = accepted_answer(reply)
    client_id, secret = answer.get("client_id"), answer.get("client_secret")
    if not isinstance(client_id, str) or not client_id:
        raise TokenRefused("invalid_client", "its registration endpoint answered without a client_id")
    secret = secret if isinstance(secret, str) and secret else None
    if secret is None:
        return Registered(client_id)
    # A secret with no method said is for Basic (RFC 7591 §2), unless another way to use one was asked for.
    assumed = wanted if wanted != "none" else "client_secret_basic"
    given = METHODS.get(str(answer.get("token_endpoint_auth_method") or assumed), "body")
    return Registered(client_id, secret, chosen or given)

"""Webhooks of providers without a script of their own: who sends them is checked, whose they are is the application's to say."""

import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.catalog.webhook import WebhookSignature
from gateway.scripts.signature import verified
from gateway.scripts.webhook import Incoming, Routing, SignatureRefused
from gateway.secret import Secret

LONGEST_QUESTION: Final = 16 * 1024  # bytes of a body that asks whether anybody is there


def signed_webhook(message: Incoming, how: WebhookSignature | None, secrets: Sequence[Secret]) -> Routing:
    """Raises SignatureRefused also where there is a secret and nothing says how it is used."""
    if secrets and how is None:
        raise SignatureRefused("there is no way to check it")
    seen = verified(message, how, secrets) if secrets and how is not None else None
    reply = _reply(message.body, secrets[0] if secrets else None)
    return Routing((), None if reply is not None else seen, reply)


def _reply(body: bytes, secret: Secret | None) -> dict[str, Any] | None:
    """To a provider that asks, in its own words, whether anybody is there before it sends anything."""
    if len(body) > LONGEST_QUESTION:
        return None
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, Mapping):
        return None
    challenge, inner = asked.get("challenge"), asked.get("payload")
    if asked.get("type") == "url_verification" and isinstance(challenge, str):
        return {"challenge": challenge}
    if asked.get("event") == "endpoint.url_validation" and isinstance(inner, Mapping) and secret:
        token = str(inner.get("plainToken", ""))
        return {
            "plainToken": token,
            "encryptedToken": hmac.digest(secret.reveal().encode(), token.encode(), "sha256").hex(),
        }
    return {"type": 1} if asked.get("type") == 1 and "application_id" in asked else None

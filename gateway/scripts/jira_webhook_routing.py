"""Whose an issue tracker's webhook is: the site in it is that of the connections it is for (api-contract 7)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.catalog.webhook import WebhookSignature
from gateway.scripts.signature import verified
from gateway.scripts.webhook import Incoming, Routing
from gateway.secret import Secret

SIGNED: Final = WebhookSignature(
    scheme="hmac-sha256", header="x-hub-signature", encoding="hex", prefix="sha256=", signed_payload="raw body"
)
SUBJECTS: Final = (
    *("issue", "comment", "sprint", "board", "worklog", "version", "issueLink", "project", "attachment", "issuetype"),
    *("filter", "user"),
)


def jira_webhook_routing(message: Incoming, how: WebhookSignature | None, secrets: Sequence[Secret]) -> Routing:
    """Where a secret is set the signature must be right; Jira signs only webhooks that were registered with one."""
    seen = verified(message, how or SIGNED, secrets) if secrets else None
    origin = _origin(_parsed(message.body))
    return Routing((origin,) if origin else (), seen)


def _origin(body: Any) -> str | None:
    """Of the first subject that says where it is."""
    for name in SUBJECTS:
        subject = body.get(name) if isinstance(body, Mapping) else None
        where = subject.get("self") if isinstance(subject, Mapping) else None
        try:
            parts = urlsplit(where) if isinstance(where, str) else None
        except ValueError:
            continue
        if parts is not None and parts.scheme and parts.netloc:
            return f"{parts.scheme}://{parts.netloc}"
    return None


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None

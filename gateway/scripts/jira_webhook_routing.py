"""Whose an issue tracker's webhook is: the site in it is that of the connections it is for (api-contract 7)."""

import codecs
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from gateway.catalog.webhook import WebhookSignature
from gateway.scripts.signature import verified
from gateway.scripts.webhook import Incoming, Routing
from gateway.secret import Secret
from gateway.wire.paging.scan import Member, members_at, skip_space, string_of

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
    origin = _origin(message.body)
    return Routing((origin,) if origin else (), seen)


def _origin(body: bytes) -> str | None:
    """Of the first subject that says where it is."""
    subjects = _subjects(body)
    for name in SUBJECTS:
        where = subjects.get(name)
        try:
            parts = urlsplit(where) if where is not None else None
        except ValueError:
            continue
        if parts is not None and parts.scheme and parts.netloc:
            return f"{parts.scheme}://{parts.netloc}"
    return None


def _subjects(body: bytes) -> dict[str, str]:
    """The address of each subject. Nothing else of the body is built: it may have 5 MiB."""
    text = body.decode("latin-1")
    found: dict[str, str] = {}
    try:
        for member in _members(text, skip_space(text, 3 if body.startswith(codecs.BOM_UTF8) else 0)):
            name = string_of(text[member.start : member.colon])
            if name not in SUBJECTS:
                continue
            found.pop(name, None)
            for inner in _members(text, member.value):
                if string_of(text[inner.start : inner.colon]) == "self":
                    value = text[inner.value : inner.end]
                    found[name] = string_of(value) if value.startswith('"') else ""
    except ValueError:  # no JSON, or no UTF-8
        return {}
    return found


def _members(text: str, pos: int) -> Iterator[Member]:
    """None where there is no object."""
    return members_at(text, pos) if text[pos : pos + 1] == "{" else iter(())

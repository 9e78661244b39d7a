"""Members that several request bodies of the API share (docs/compatibility.md#identifiers)."""

import json
import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from gateway.api.request_body import Strict
from gateway.config import values
from gateway.http.url import has_dot_segment
from gateway.records.connection import CONNECTION_ID, PROVIDER_CONFIG_KEY, EndUser
from gateway.text import counted

EMAIL_FORM: Final = re.compile(r"[^@\s]++@[^@\s][^@\s.]*+\.[^@\s]++")
TAG_KEY_FORM: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_./-]{0,63}")
MAX_TAGS: Final = 10
MAX_NAMES: Final = 1000  # maximum number of integrations, connections or hosts in one list of a body
MAX_USER_TAGS: Final = 64
FREE_BYTES: Final = 65_536
"""Maximum size in bytes, as JSON, of members with content of the caller's choice, such as metadata. The size is limited
because lists, events and pages include these members."""


def _checked_id_text(text: str) -> str:
    if text != text.strip():
        raise ValueError(
            "must not begin or end with whitespace: HTTP strips it from headers, so no request could use this id"
        )
    if has_dot_segment(text):
        raise ValueError("must not have '.' or '..' as a segment: clients resolve them in a URL")
    return text


def _checked_webhook_url(text: str) -> str:
    if text:  # an empty text removes the URL
        values.webhook_url(text)
    return text


# The package `egress` checks for each request whether the gateway may call the URL.
WebhookUrl = Annotated[str, StringConstraints(max_length=2048), AfterValidator(_checked_webhook_url)]
ConnectionId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255, pattern=CONNECTION_ID),
    AfterValidator(_checked_id_text),
]
ProviderConfigKey = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=PROVIDER_CONFIG_KEY)]
Short = Annotated[str, StringConstraints(max_length=255)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=255)]


def _checked_tags(tags: dict[str, str]) -> dict[str, str]:
    """Return the tags with keys in lower case. Raises ValueError for an invalid tag, for more than `MAX_TAGS` tags, or
    if two keys differ only in case."""
    lowered_tags: dict[str, str] = {}
    for key, value in tags.items():
        if not TAG_KEY_FORM.fullmatch(key):
            raise ValueError(f"tag '{key[:64]}' must begin with a letter and hold letters, digits and _ - . / only")
        if not 1 <= len(value) <= 255:
            raise ValueError(f"the value of tag '{key}' must have 1 to 255 characters")
        if key.lower() in lowered_tags:
            raise ValueError(f"tag '{key.lower()}' was given twice")
        lowered_tags[key.lower()] = value
    if len(lowered_tags) > MAX_TAGS:
        raise ValueError(f"at most {MAX_TAGS} tags")
    email = lowered_tags.get("end_user_email")
    if email is not None and not EMAIL_FORM.fullmatch(email):
        raise ValueError("tag 'end_user_email' must be an e-mail address")
    return lowered_tags


Tags = Annotated[dict[str, str], AfterValidator(_checked_tags)]


def _checked_email(text: str) -> str:
    if not EMAIL_FORM.fullmatch(text):
        raise ValueError("must be an e-mail address")
    return text


def json_bytes(value: Any) -> int:
    """Return the size of `value` as compact JSON in UTF-8."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _checked_size(value: Any) -> Any:
    if (size := json_bytes(value)) > FREE_BYTES:
        raise ValueError(f"has {counted(size, 'byte')} as JSON; the limit is {FREE_BYTES:,}")
    return value


SmallAsSent: Final = BeforeValidator(_checked_size)
FreeMembers = Annotated[dict[str, Any], AfterValidator(_checked_size)]


class EndUserBody(Strict):
    """The end user who owns the connection, as your application describes them."""

    id: Id
    email: Annotated[str, StringConstraints(min_length=5, max_length=255), AfterValidator(_checked_email)] | None = None
    display_name: Short | None = None
    tags: Annotated[dict[Short, Short], Field(max_length=MAX_USER_TAGS)] | None = None


class OrganizationBody(Strict):
    id: Id
    display_name: Short | None = None


def end_user(body: EndUserBody | None, organization: OrganizationBody | None = None) -> EndUser | None:
    if body is None:
        return None
    return EndUser(
        id=body.id,
        email=body.email,
        display_name=body.display_name,
        tags=body.tags,
        organization_id=organization.id if organization else None,
        organization_display_name=organization.display_name if organization else None,
    )


def derived_tags(user: EndUser | None, tags: dict[str, str] | None) -> dict[str, str]:
    """Return `tags` and the tags that describe the end user. A tag in `tags` replaces a derived tag with the same key.
    The end user's own tags are left out if the total would exceed `MAX_TAGS`."""
    if user is None:
        return tags or {}
    user_tags: dict[str, Any] = {
        "end_user_id": user.id,
        "end_user_email": user.email,
        "end_user_display_name": user.display_name,
        "organization_id": user.organization_id,
        "organization_display_name": user.organization_display_name,
    }
    required_tags = {name: text for name, text in user_tags.items() if text} | (tags or {})
    own_tags = {name.lower(): text for name, text in (user.tags or {}).items() if text}
    return {**own_tags, **required_tags} if len({**own_tags, **required_tags}) <= MAX_TAGS else required_tags


def replacing_tags(user: EndUser | None, tags: dict[str, str] | None) -> dict[str, str] | None:
    """Return the result of `derived_tags`, which replaces all tags of a connection. None: the request has neither an
    end user nor tags, so the existing tags stay."""
    return None if user is None and tags is None else derived_tags(user, tags)

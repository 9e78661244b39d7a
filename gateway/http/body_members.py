"""Adds the members that a provider requires to the caller's body, which is a JSON object or a form."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_plus, urlencode

from gateway.http.headers import media_type
from gateway.http.json_scan import NotJson, members_at, skip_space, string_value

FORM: Final = "application/x-www-form-urlencoded"
METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_PAIR: Final = re.compile(rb"(?P<name>[^=&]++)(?:=[^&]*+)?+&?+")


@dataclass(frozen=True, slots=True)
class BodyMembers:
    """Members to add to a body, nested as in JSON.

    `slots`: members that contain the credential; they replace the caller's members of the same name. `defaults`:
    members that are added only if the caller sent no member of the same name.
    """

    slots: Mapping[str, Any] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def can_add_to(self, method: str, content_type: str, content_encoding: str) -> bool:
        """Return whether members can be added to the body: it must be JSON or a form, without a content coding."""
        media = media_type(content_type)
        return method in METHODS_WITH_BODY and not content_encoding and (media == FORM or _is_json(media))

    def add_to_body(self, content_type: str, body: bytes) -> bytes:
        """Return `body` with the members added; unchanged if `body` is not a JSON object or a form.

        All other members keep their bytes and are not parsed into objects. So time and memory are proportional to the
        length of the body.
        """
        if media_type(content_type) == FORM:
            return self._add_to_form(body)
        try:
            encoding = json.detect_encoding(body)
            if encoding != "utf-8":
                body = body.decode(encoding).encode()
            body.decode()
            text = body.decode("latin-1")
            pieces, end = _object_with_members(text, skip_space(text, 0), self.slots, self.defaults)
            if skip_space(text, end) < len(text):
                raise NotJson(end)
        except (NotJson, UnicodeError):
            return body
        return "".join(pieces).encode("latin-1")

    def _add_to_form(self, body: bytes) -> bytes:
        slots, defaults = dict(_form_pairs(self.slots)), dict(_form_pairs(self.defaults))
        kept_parts: list[bytes] = []
        sent_names: set[str] = set()
        removed_end = 0
        for pair in _PAIR.finditer(body):
            name = unquote_plus(pair["name"].decode("utf-8", "surrogateescape"), errors="surrogateescape")
            if name in defaults:
                sent_names.add(name)
            if name in slots:
                kept_parts.append(body[removed_end : pair.start()])
                removed_end = pair.end()
        kept_parts.append(body[removed_end:])
        added_defaults = [
            (name, value) for name, value in defaults.items() if name not in sent_names and name not in slots
        ]
        added_pairs = urlencode([*added_defaults, *slots.items()], errors="surrogateescape").encode("ascii")
        kept_pairs = b"".join(kept_parts).strip(b"&")
        return kept_pairs + b"&" + added_pairs if kept_pairs and added_pairs else kept_pairs or added_pairs


def _object_with_members(
    text: str, pos: int, slots: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[list[str], int]:
    """Return the object at `pos` with the members added, as pieces of text, and the end position of the object.

    Raises NotJson if there is no object at `pos`. `text` is UTF-8 decoded as Latin-1. If a name appears twice, the last
    member with this name counts, as in most JSON parsers.
    """
    if text[pos : pos + 1] != "{":
        raise NotJson(pos)
    spans: list[tuple[int, int]] = []  # start and end of each sequence of members that are copied unchanged
    sent_values: dict[str, tuple[int, int]] = {}  # by name of each other member: start and end of its value
    last_end, next_start = pos, skip_space(text, pos + 1) + 1
    for member in members_at(text, pos):
        name = string_value(text[member.start : member.colon])
        if name in slots or name in defaults:
            sent_values[name] = member.value, member.end
        else:
            span_start = spans.pop()[0] if spans and spans[-1][1] == last_end else member.start
            spans.append((span_start, member.end))
        last_end, next_start = member.end, member.after
    parts = [[text[start:stop]] for start, stop in spans]
    parts += [
        [_json_text(name), ":", *_member_value(text, sent_values.get(name), name, slots, defaults)]
        for name in {**defaults, **slots}
    ]
    pieces = (piece for number, part in enumerate(parts) for piece in ((",", *part) if number else part))
    return ["{", *pieces, "}"], next_start


def _member_value(
    text: str, sent_span: tuple[int, int] | None, name: str, slots: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[str]:
    """Return the text of the value for `name`, a key of `slots` or `defaults`.

    `sent_span`: start and end of the caller's value in `text`; None if the caller sent no value.
    """
    slot, default = slots.get(name), defaults.get(name)
    if sent_span is None:
        if isinstance(slot, Mapping) and isinstance(default, Mapping):
            return [_json_text(_merge(default, slot))]
        return [_json_text(slot if name in slots else default)]
    default_members = default if isinstance(default, Mapping) else {}
    if text[sent_span[0]] == "{" and (isinstance(slot, Mapping) or (name not in slots and default_members)):
        return _object_with_members(text, sent_span[0], slot if isinstance(slot, Mapping) else {}, default_members)[0]
    return [_json_text(slot)] if name in slots else [text[sent_span[0] : sent_span[1]]]


def _json_text(value: Any) -> str:
    """Return the value as JSON text in UTF-8, decoded as Latin-1."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict).encode().decode("latin-1")


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `override`. Objects under the same name are merged recursively."""
    merged_members = dict(base)
    for name, value in override.items():
        base_value = merged_members.get(name)
        merged_members[name] = (
            _merge(base_value, value) if isinstance(base_value, Mapping) and isinstance(value, Mapping) else value
        )
    return merged_members


def _form_pairs(members: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the form pairs of nested members: ``{"a": {"b": 1}}`` becomes ``a[b]=1``."""
    for name, value in members.items():
        field_name = f"{prefix}[{name}]" if prefix else name
        if isinstance(value, Mapping):
            yield from _form_pairs(value, field_name)
        else:
            yield field_name, value if isinstance(value, str) else json.dumps(value)


def _is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")

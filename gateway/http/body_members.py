"""Members that a provider wants in the body beside the caller's: a JSON object or a form, read and written again."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_plus, urlencode

from gateway.http.headers import media_type
from gateway.http.json_scan import NotJson, members_at, skip_space, string_of

FORM: Final = "application/x-www-form-urlencoded"
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_PAIR: Final = re.compile(rb"(?P<name>[^=&]++)(?:=[^&]*+)?+&?+")


@dataclass(frozen=True, slots=True)
class BodyMembers:
    """Nested as in JSON. `slots` carry the credential and replace what the caller sent; `defaults` stand in where it
    sent none.
    """

    slots: Mapping[str, Any] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def can_add_to(self, method: str, content_type: str, content_encoding: str) -> bool:
        """Return whether a body of this kind can take the members; a coded one cannot, nor any other media type."""
        media = media_type(content_type)
        return method in WITH_BODY and not content_encoding and (media == FORM or _is_json(media))

    def add_to_body(self, content_type: str, body: bytes) -> bytes:
        """`body` with the members; as it is where it is not a JSON object after all. What the members do not touch keeps its
        bytes, and nothing is built of it: the time grows with the length of the body, the memory by little more than that.
        """
        if media_type(content_type) == FORM:
            return self._into_form(body)
        try:
            encoding = json.detect_encoding(body)
            if encoding != "utf-8":
                body = body.decode(encoding).encode()
            body.decode()
            text = body.decode("latin-1")
            pieces, end = _spliced(text, skip_space(text, 0), self.slots, self.defaults)
            if skip_space(text, end) < len(text):
                raise NotJson(end)
        except (NotJson, UnicodeError):
            return body
        return "".join(pieces).encode("latin-1")

    def _into_form(self, body: bytes) -> bytes:
        slots, defaults = dict(_flat(self.slots)), dict(_flat(self.defaults))
        kept: list[bytes] = []
        named: set[str] = set()
        at = 0
        for pair in _PAIR.finditer(body):
            name = unquote_plus(pair["name"].decode("utf-8", "surrogateescape"), errors="surrogateescape")
            if name in defaults:
                named.add(name)
            if name in slots:
                kept.append(body[at : pair.start()])
                at = pair.end()
        kept.append(body[at:])
        added = [(name, value) for name, value in defaults.items() if name not in named and name not in slots]
        written = urlencode([*added, *slots.items()], errors="surrogateescape").encode("ascii")
        before = b"".join(kept).strip(b"&")
        return before + b"&" + written if before and written else before or written


def _spliced(text: str, pos: int, slots: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[list[str], int]:
    """The object at `pos` with the members, as pieces of text, and where it ends. Raises NotJson, also for no object.

    `text` is UTF-8 read as Latin-1. Of a name that comes twice the last one counts, as readers have it.
    """
    if text[pos : pos + 1] != "{":
        raise NotJson(pos)
    spans: list[tuple[int, int]] = []  # positions of members that stay as they are
    sent: dict[str, tuple[int, int]] = {}  # the other members: where the value begins and ends
    last, end = pos, skip_space(text, pos + 1) + 1
    for member in members_at(text, pos):
        name = string_of(text[member.start : member.colon])
        if name in slots or name in defaults:
            sent[name] = member.value, member.end
        else:
            begin = spans.pop()[0] if spans and spans[-1][1] == last else member.start
            spans.append((begin, member.end))
        last, end = member.end, member.after
    parts = [[text[start:stop]] for start, stop in spans]
    parts += [
        [_written(name), ":", *_value(text, sent.get(name), name, slots, defaults)] for name in {**defaults, **slots}
    ]
    pieces = (piece for number, part in enumerate(parts) for piece in ((",", *part) if number else part))
    return ["{", *pieces, "}"], end


def _value(
    text: str, sent: tuple[int, int] | None, name: str, slots: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[str]:
    """Return the text for `name`, one of `slots` or `defaults`; `sent`: where the caller's value lies in `text`."""
    slot, default = slots.get(name), defaults.get(name)
    if sent is None:
        if isinstance(slot, Mapping) and isinstance(default, Mapping):
            return [_written(_merged(default, slot))]
        return [_written(slot if name in slots else default)]
    inner = default if isinstance(default, Mapping) else {}
    if text[sent[0]] == "{" and (isinstance(slot, Mapping) or (name not in slots and inner)):
        return _spliced(text, sent[0], slot if isinstance(slot, Mapping) else {}, inner)[0]
    return [_written(slot)] if name in slots else [text[sent[0] : sent[1]]]


def _written(value: Any) -> str:
    """Return the value as JSON, in the form of `text` above."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict).encode().decode("latin-1")


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid upon `under`, objects in both member by member."""
    found = dict(under)
    for name, value in over.items():
        below = found.get(name)
        found[name] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return found


def _flat(members: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """``{"a": {"b": 1}}`` as ``a[b]=1``."""
    for name, value in members.items():
        place = f"{prefix}[{name}]" if prefix else name
        if isinstance(value, Mapping):
            yield from _flat(value, place)
        else:
            yield place, value if isinstance(value, str) else json.dumps(value)


def _is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")

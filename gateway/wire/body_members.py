"""Members that a provider wants in the body beside the caller's: a JSON object or a form, read and written anew."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

FORM: Final = "application/x-www-form-urlencoded"
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class BodyMembers:
    """Nested as in JSON. `slots` carry the credential and replace what the caller sent; `defaults` stand in where it
    sent none.
    """

    slots: Mapping[str, Any] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, method: str, content_type: str, content_encoding: str) -> bool:
        """Whether a body of this kind can take them; a coded one cannot, nor any other media type."""
        media = _media(content_type)
        return method in WITH_BODY and not content_encoding and (media == FORM or _is_json(media))

    def put_into(self, content_type: str, body: bytes) -> bytes:
        """`body` with the members; as it is where it is no JSON object after all."""
        if _media(content_type) == FORM:
            return self._into_form(body)
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return body
        if not isinstance(value, dict):
            return body
        merged = _merged(_merged(dict(self.defaults), value), self.slots)
        return json.dumps(merged, ensure_ascii=False, separators=(",", ":")).encode()

    def _into_form(self, body: bytes) -> bytes:
        sent = parse_qsl(body.decode("utf-8", "surrogateescape"), keep_blank_values=True, errors="surrogateescape")
        slots = dict(_flat(self.slots))
        named = {name for name, _ in sent}
        pairs = [(name, value) for name, value in sent if name not in slots]
        pairs += [(name, value) for name, value in _flat(self.defaults) if name not in named and name not in slots]
        return urlencode([*pairs, *slots.items()], errors="surrogateescape").encode("ascii")


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


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")

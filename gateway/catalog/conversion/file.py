"""A file of many entries ▸ entries that load, each checked as the gateway checks its own, and everything that was lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.catalog.checks import Finding, Words
from gateway.catalog.conversion.alias import Expanded, expanded
from gateway.catalog.conversion.convert import Converting
from gateway.catalog.conversion.notes import Note, Notes, Place
from gateway.catalog.document import Document, read
from gateway.catalog.entry import provider_in
from gateway.catalog.faults import Fault
from gateway.catalog.inherit import CannotInherit, Heirs
from gateway.catalog.names import carries_credential
from gateway.catalog.template import TemplateError

LARGEST_BYTES: Final = 32 * 1024 * 1024
MOST_NODES: Final = 2_000_000
# Without these an entry is another one, or none: what is wrong in them cannot be left out.
_NEEDED: Final = frozenset(
    {"display_name", "categories", "auth_mode", "authorization_url", "token_url", "request_url", "refresh_url"}
    | {"installation_token_url", "additional_steps", "token_params", "token_body", "token_headers", "jwt", "signature"}
    | {"request_signing", "alias", "authorization_params"}
)
_NEEDED_OF_PROXY: Final = frozenset({"base_url", "body"})
MOST_REPAIRS: Final = 40


@dataclass(frozen=True, slots=True)
class Told:
    """A note with its line."""

    kind: str
    field: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Converted:
    """`values` is what our file says; None where the entry cannot be used here."""

    name: str
    values: dict[str, Any] | None
    told: tuple[Told, ...]


def converted(path: Path, words: Words, shipped: Mapping[str, Mapping[str, Any]]) -> list[Converted]:
    """Every entry of `path`, in the order of the file. `shipped`: whole entries that an ``alias`` may name besides.

    Raises Unreadable.
    """
    document = read(path, largest_bytes=LARGEST_BYTES, most_nodes=MOST_NODES)
    entries = document.value if isinstance(document.value, Mapping) else {}
    names = [name for name in entries if not name.startswith(".")]  # those only hold what others refer to
    if not any(isinstance(entries[name], Mapping) for name in names):
        raise NotACatalog(
            Fault(document.where(), "is no file of entries: it holds `name:` lines with an entry below each")
        )
    return [_converted(name, entries, path, document, words, shipped) for name in names]


class NotACatalog(ValueError):
    """`fault` says what the file is not."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def _converted(
    name: str,
    entries: Mapping[str, Any],
    path: Path,
    document: Document,
    words: Words,
    shipped: Mapping[str, Mapping[str, Any]],
) -> Converted:
    if not isinstance(entries[name], Mapping):
        return Converted(name, None, (Told("refused", "", document.where(name), "is no entry"),))
    whole = expanded(name, entries)
    converting = Converting(words.scripts or ())
    notes = converting.notes
    if whole.circle:
        notes.refused(("alias",), "inherits from itself")
    values = converting.values(_below(whole, shipped))
    values |= {"provenance": "unconfirmed", "sources": [f"imported from {path.name}"]}
    if whole.unknown is not None:
        if whole.unknown in shipped:
            values = _heir(values, whole)
            notes.changed(("alias",), f"{whole.unknown!r} is the shipped entry, and inheriting is deep here")
        else:
            notes.refused(("alias",), f"there is no entry {whole.unknown!r} in the file or in the shipped catalog")
    if not notes.is_refused:
        values = _repaired(name, values, words, shipped, notes)
    lines = tuple(
        Told(note.kind, _dotted(note.place), _where(document, name, whole, note), note.message) for note in notes.all
    )
    return Converted(name, None if notes.is_refused else values, lines)


def _below(whole: Expanded, shipped: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The entry with its mode known, whoever says it."""
    base = shipped.get(whole.unknown or "")
    if base is None:
        return whole.values
    return {"auth_mode": base["auth_mode"], "proxy": {"base_url": base["proxy"]["base_url"]}, **whole.values}


def _heir(values: dict[str, Any], whole: Expanded) -> dict[str, Any]:
    """Only what it says itself."""
    inherited = {"auth_mode", "proxy", "categories", "display_name"} - set(whole.values)
    return {"alias": whole.unknown, **{key: value for key, value in values.items() if key not in inherited}}


def _repaired(
    name: str, values: dict[str, Any], words: Words, shipped: Mapping[str, Mapping[str, Any]], notes: Notes
) -> dict[str, Any]:
    """`values` without what our checks refuse and the entry can do without; each told as lost."""
    for _ in range(MOST_REPAIRS):
        findings = list(_findings(name, values, words, shipped))
        if not findings:
            return values
        dropped = False
        for place, message in findings:
            if place and not _is_needed(place, values) and _drop(values, place):
                notes.lost(place, message)
                dropped = True
        if not dropped:
            for place, message in findings:
                notes.refused(place, message)
            return values
    return values


def _findings(
    name: str, values: dict[str, Any], words: Words, shipped: Mapping[str, Mapping[str, Any]]
) -> Sequence[Finding]:
    try:
        whole = Heirs({name: values}, shipped).whole(name)
    except CannotInherit as wrong:
        return [(("alias",), str(wrong))]
    return provider_in(name, whole, words)[1]


def _is_needed(place: Place, values: Mapping[str, Any]) -> bool:
    if place[0] != "proxy":
        return place[0] in _NEEDED
    if len(place) < 3 or place[1] not in {"headers", "query"}:
        return len(place) < 2 or place[1] in _NEEDED_OF_PROXY
    try:
        return carries_credential(str(values["proxy"][place[1]].get(place[2], "")))
    except TemplateError:
        return True


def _drop(values: dict[str, Any], place: Place) -> bool:
    """Take `place` out, or the list it lies in."""
    held: Any = values
    for index, step in enumerate(place):
        inner = held.get(step) if isinstance(held, dict) else None
        if inner is None:
            return False
        if index == len(place) - 1 or not isinstance(inner, dict):
            del held[step]
            return True
        held = inner
    return False


def _where(document: Document, name: str, whole: Expanded, note: Note) -> str:
    owner = whole.owner.get(str(note.place[0]), name) if note.place else name
    return document.where(owner, *note.place)


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def rows(found: Sequence[Converted]) -> Iterator[dict[str, Any]]:
    """As JSON: per entry whether it is usable, and what became of its fields."""
    for one in found:
        told: dict[str, list[dict[str, str]]] = {"lost": [], "changed": [], "refused": []}
        for note in one.told:
            told[note.kind].append({"field": note.field, "where": note.where, "message": note.message})
        yield {"name": one.name, "usable": one.values is not None, **told}

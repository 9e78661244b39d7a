"""Keeps the notes on converted fields, and converts plain values and fallbacks that are written as ``A || B``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

# ── Notes. A note says that the conversion changed a field, lost it, or refused the entry.

Place = tuple[str | int, ...]
Kind = Literal["lost", "changed", "refused"]


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a field. `place`: the path of the field in the entry of the source file.

    `kind`: ``lost`` if a gateway entry has no such field or value; ``changed`` if it is expressed differently there;
    ``refused`` if the entry does not work without the field, and is therefore not converted.
    """

    kind: Kind
    place: Place
    message: str


@dataclass(slots=True)
class Notes:
    """The notes on one converted entry."""

    all: list[Note] = field(default_factory=list)

    def add_lost(self, place: Place, message: str) -> None:
        self._add("lost", place, message)

    def add_changed(self, place: Place, message: str) -> None:
        self._add("changed", place, message)

    def add_refused(self, place: Place, message: str) -> None:
        self._add("refused", place, message)

    def _add(self, kind: Kind, place: Place, message: str) -> None:
        note = Note(kind, place, message)
        if note not in self.all:
            self.all.append(note)

    @property
    def is_refused(self) -> bool:
        return any(note.kind == "refused" for note in self.all)


# ── Converting YAML values to the types of a gateway entry's fields.


def as_text(value: Any) -> str:
    """Return a value as text: ``true`` becomes ``"true"``, ``7`` becomes ``"7"``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def as_flag(value: Any) -> bool:
    """Return whether `value` is true, or the text ``true``."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def as_list(value: Any) -> list[str]:
    """Return `value` as a list of texts. A single value becomes a list with one text."""
    return [as_text(item) for item in (value if isinstance(value, list) else [value])]


def is_flat(value: Any) -> bool:
    """Return whether `value` is a mapping of names to plain values."""
    return isinstance(value, Mapping) and not any(isinstance(inner, Mapping | list) for inner in value.values())


# ── Fallbacks. ``A || B`` means A if the values of A are set, else B. A gateway entry has alternatives for URLs in place
# of fallbacks, and a default value for a setting.

_INSIDE: Final = re.compile(r"\$\{\s*([^{}()|]+?)\s*\|\|\s*([^{}()]*?)\s*\}")
_BETWEEN: Final = re.compile(r"\s*\|\|\s*")
_ONE_NAME: Final = re.compile(r"\$\{(connectionConfig|credentials)\.([A-Za-z0-9_.-]+)\}|\$\{([A-Za-z][A-Za-z0-9_]*)\}")


@dataclass(slots=True)
class FallbackTemplates:
    """Converts fallbacks (``A || B``).

    `defaults`: the default values of settings, by form (``connection_config`` or ``credentials``) and setting.
    """

    notes: Notes
    defaults: dict[tuple[str, str], str] = field(default_factory=dict)

    def url(self, template: str, place: Place) -> tuple[str, list[str]]:
        """Return the last URL, which is the fallback, and the alternatives that are tried first, in order."""
        *alternatives, main_template = self._choices(template, place)
        # A URL without a placeholder is left out: it would always apply, so the fallback would never be used.
        return main_template, [choice for choice in alternatives if "${" in choice]

    def text(self, template: str, place: Place) -> str:
        """Return the template of a header, a parameter or any other text, without its fallbacks."""
        choices = self._choices(template, place)
        main_text, *alternatives = choices
        if not alternatives:
            return main_text
        if "${" not in main_text:
            return self.text(" || ".join(alternatives), place)
        if len(alternatives) == 1 and self._set_default(main_text, alternatives[0]):
            self.notes.add_changed(place, f"'|| {alternatives[0]}' became the setting's default_value")
            return main_text
        self.notes.add_lost(
            place, f"'|| {' || '.join(alternatives)}': a template has no fallback here; only {main_text!r} is kept"
        )
        return main_text

    def _set_default(self, template: str, default: str) -> bool:
        """Make `default` the default value of the setting in `template`. Return whether this was possible."""
        match = _ONE_NAME.fullmatch(template)
        if match is None or "${" in default:
            return False
        form = "connection_config" if match[1] == "connectionConfig" else "credentials"
        return self.defaults.setdefault((form, match[2] or match[3]), default) == default

    def _choices(self, template: str, place: Place) -> list[str]:
        """Return the templates that ``||`` separates. A ``||`` inside a placeholder becomes a default value."""

        def replace_by_default(match: re.Match[str]) -> str:
            main_placeholder = f"${{{match[1]}}}"
            default_value = match[2].strip("'\"")
            if not self._set_default(main_placeholder, default_value):
                self.notes.add_lost(
                    place, f"'|| {match[2]}': a placeholder has no fallback here; it is {main_placeholder} now"
                )
            return main_placeholder

        simplified_template = _INSIDE.sub(replace_by_default, template)
        return [choice for choice in _BETWEEN.split(simplified_template) if choice] or [simplified_template]


def with_defaults(entry: dict[str, Any], defaults: Mapping[tuple[str, str], str]) -> None:
    """Write `defaults` into the forms of the entry `entry`. Existing default values are kept."""
    for (form, name), value in defaults.items():
        setting = entry.setdefault(form, {}).setdefault(name, {})
        setting.setdefault("default_value", value)

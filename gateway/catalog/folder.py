"""Reads one folder of YAML into its entries, each whole with what it inherits, and all faults of its files."""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.catalog.checks import ExternalNames, Finding, check
from gateway.catalog.evidence import inheritable_evidence
from gateway.catalog.provider import Provider
from gateway.catalog.yaml_file import CatalogDocument, CatalogFault, UnreadableFile, read, shown_path
from gateway.documents.pydantic_messages import pydantic_message
from gateway.documents.read_document import dotted
from gateway.text import did_you_mean

# ── ``alias: base``: an entry inherits what another one says, deep. Plain values, before anything is checked.

KEY: Final = "alias"
EVIDENCE: Final = "evidence"
# Who an entry is, it says itself.
_OWN: Final = frozenset({"name", KEY})

Values = Mapping[str, Any]


class CannotInherit(ValueError):
    """The base entry does not exist or cannot be used; the message says why and what to do."""


class InheritedEntries:
    """The entries of one folder with everything that they inherit.

    A base is looked for in the same folder, then in `earlier` ones. An entry that names itself inherits from the earlier
    one of its name, and so changes a shipped entry without repeating it.
    """

    def __init__(self, own: Mapping[str, Values], earlier: Mapping[str, Values]) -> None:
        self._own = own
        self._earlier = earlier
        self._whole: dict[str, Values] = {}

    def whole(self, name: str) -> Values:
        """Return the values of the entry called `name`, with what it inherits from its bases. Raises CannotInherit."""
        return self._found(name, ())

    def _found(self, name: str, heirs: tuple[str, ...]) -> Values:
        if name in heirs:
            circle = " ▸ ".join((*heirs[heirs.index(name) :], name))
            raise CannotInherit(f"{circle} goes round in a circle; let one of them stand by itself")
        if name not in self._whole:
            said = self._own[name]
            base = said.get(KEY)
            self._whole[name] = said if base is None else _over(self._base(name, base, (*heirs, name)), said)
        return self._whole[name]

    def _base(self, name: str, base: Any, heirs: tuple[str, ...]) -> Values:
        if not isinstance(base, str):
            raise CannotInherit("must be the name of another entry")
        if base != name and base in self._own:
            found = self._found(base, heirs)
        elif base in self._earlier:
            found = self._earlier[base]
        else:
            known = sorted({*self._own, *self._earlier} - {name})
            hint = did_you_mean(base, known) or "; `gateway catalog list` shows what there is"
            raise CannotInherit(f"there is no entry {base!r} to inherit from{hint}")
        return {key: value for key, value in found.items() if key not in _OWN}


def _over(base: Values, said: Values) -> dict[str, Any]:
    """`base` with what an heir says over it. Groups of evidence are taken whole, and only where their fields are the base's."""
    whole = merged(base, {key: value for key, value in said.items() if key != EVIDENCE})
    own = said.get(EVIDENCE)
    if isinstance(inherited := base.get(EVIDENCE), Mapping):
        whole[EVIDENCE] = inheritable_evidence(inherited, said)
    if isinstance(own, Mapping):
        groups = {**whole.get(EVIDENCE, {}), **own}
        whole[EVIDENCE] = {name: one for name, one in groups.items() if one is not None}
    elif own is not None:
        whole[EVIDENCE] = own
    return whole


def merged(base: Values, heir: Values) -> dict[str, Any]:
    """`base` with what `heir` says over it: mappings key by key, all else whole, and ``null`` takes a key away."""
    result = dict(base)
    for key, value in heir.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inherited = result.get(key)
            result[key] = merged(inherited if isinstance(inherited, Mapping) else {}, value)
        else:
            result[key] = value
    return result


# ── One entry's values ▸ a provider: the shape by pydantic, then whether it makes sense; each fault as (place,
# message).

# Faults in these, or a misspelt one of them, would make placeholders and required addresses look wrong.
_READ_BY_CHECKS: Final = frozenset(
    {"auth_mode", "authorization_url", "token_url", "connection_config", "connection_configuration", "credentials"}
    | {"token_response_metadata", "redirect_uri_metadata", "assertion_option", "additional_steps", "jwt", "signature"}
    | {"request_signing", "request_url", "installation_token_url"}
)
_STAND_INS: Final[dict[str, Any]] = {"display_name": "x", "categories": ["other"]}


def provider_in(name: str, values: Any, words: ExternalNames) -> tuple[Provider | None, list[Finding]]:
    """The provider that `values` describe, and everything that is wrong with them; with a fault there is none."""
    if not isinstance(values, Mapping):
        return None, [((), "an entry must be a mapping: `key: value` lines")]
    faults: list[Finding] = []
    if values.get("name", name) != name:
        faults.append((("name",), f"the file's name says {name!r}; leave `name` out or make them equal"))
    given = {**values, "name": name}
    try:
        provider: Provider | None = Provider.model_validate(given)
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False, include_context=True)
        faults += map(_fault, errors)
        provider = _sound_part(given, errors)
    if provider is not None:
        faults += check(provider, words)
    return None if faults else provider, faults


def _sound_part(given: Mapping[str, Any], errors: Sequence[ErrorDetails]) -> Provider | None:
    """Return the sound part of an entry, for the checks that look at values.

    Faulty fields are left out, required ones filled with stand-ins. None where the checks would then only repeat what
    is said already.
    """
    if any(error["loc"][0] in _READ_BY_CHECKS or error["loc"][0] not in Provider.model_fields for error in errors):
        return None
    part = _STAND_INS | copy.deepcopy(dict(given))
    for error in errors:
        _drop(part, error["loc"])
    try:
        return Provider.model_validate(_STAND_INS | part)
    except ValidationError:
        return None


def _drop(value: Any, place: Sequence[int | str]) -> None:
    """Take `place` out of `value`, or what holds it if it lies in a list; nothing where it is not there."""
    for step in place[:-1]:
        inner = value.get(step) if isinstance(value, dict) else None
        if not isinstance(inner, dict):
            break
        value, place = inner, place[1:]
    if isinstance(value, dict):
        value.pop(place[0], None)


def _fault(error: ErrorDetails) -> Finding:
    path = error["loc"]
    if error["type"] == "missing":
        return path[:-1], f"{_dotted(path)} is missing" + _why_missing(path)
    return path, _in_words(error, path)


def _in_words(error: ErrorDetails, path: Sequence[int | str]) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown key {str(path[-1])!r}" + _did_you_mean(str(path[-1]), _fields_at(path[:-1]))
    colon = ":" if error["type"] == "value_error" else ""
    return f"{_dotted(path)}{colon} {pydantic_message(error, 'yaml')}"


def _why_missing(path: Sequence[int | str]) -> str:
    required = "every entry needs display_name, categories, auth_mode and proxy.base_url"
    return f"; {required}" if len(path) == 1 or path == ("proxy", "base_url") else ""


def _did_you_mean(key: str, known: Collection[str]) -> str:
    if key == "<<":
        return "; merge keys are not read, write the values out"
    return did_you_mean(key, known)


def _fields_at(path: Sequence[int | str]) -> list[str]:
    """Keys that the shape at `path` knows."""
    shape: type[BaseModel] = Provider
    for step in path:
        field = shape.model_fields.get(str(step))
        shape = next(_shapes_in(field.annotation), shape) if field else shape
    return list(shape.model_fields)


def _shapes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _shapes_in(inner)


def _dotted(path: Sequence[int | str]) -> str:
    # A union's branches appear in pydantic's path as if they were keys; nobody wrote those.
    return dotted([step for step in path if step not in {"str", "list[str]"}])


ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A file as read: what it says in full, or what is wrong with it."""

    name: str
    path: Path
    content: bytes | None
    """The provider as JSON, with what it inherits and without defaults; `Provider` reads it. None with a fault."""
    faults: tuple[CatalogFault, ...]


def read_entries(files: Sequence[Path], words: ExternalNames, earlier: Mapping[str, Values]) -> list[CatalogEntry]:
    """The entry in each of `files`, in their order. `earlier`: the whole entries of folders before this one.

    Nothing of a file is kept but its values; a fault's line is looked up by reading that file once more.
    """
    values: dict[str, Any] = {}
    faults: dict[Path, tuple[CatalogFault, ...]] = {}
    for path in files:
        try:
            document = read(path)
        except UnreadableFile as wrong:
            faults[path] = (wrong.fault,)
            continue
        values[path.stem] = document.value
        if document.faults:
            faults[path] = tuple(document.faults)
    own = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    reading = _FolderReading(InheritedEntries(own, earlier), words, {path.stem for path in faults})
    made = {
        path: reading.entry(path, values[path.stem], faults.get(path, ()))
        for path in sorted(files, key=lambda path: _generation(path.stem, own))
        if path.stem in values
    }
    return [made.get(path) or CatalogEntry(path.stem, path, None, faults[path]) for path in files]


def _generation(name: str, own: Mapping[str, Values]) -> int:
    """How many bases lie before an entry in its folder, so that a base is looked at before its heirs."""
    chain: list[str] = []
    while name in own and name not in chain:
        chain.append(name)
        name = str(own[name].get(KEY))
    return len(chain)


@dataclass(frozen=True, slots=True)
class _FolderReading:
    heirs: InheritedEntries
    words: ExternalNames
    broken: set[str]

    def entry(self, path: Path, value: Any, known: tuple[CatalogFault, ...]) -> CatalogEntry:
        provider, found = self._whole(path.stem, value)
        if provider is not None and not known:
            return CatalogEntry(path.stem, path, content_of(provider), ())
        self.broken.add(path.stem)
        document = read(path) if found else None
        faults = {CatalogFault(_where(document, place), message) for place, message in found if document is not None}
        return CatalogEntry(
            path.stem, path, None, tuple(sorted({*faults, *known}, key=lambda fault: (fault.line, fault.message)))
        )

    def _whole(self, name: str, value: Any) -> tuple[Provider | None, Sequence[Finding]]:
        if not isinstance(value, Mapping) or value.get(KEY) is None:
            return provider_in(name, value, self.words)
        try:
            whole = self.heirs.whole(name)
        except CannotInherit as wrong:
            return None, [((KEY,), f"{KEY}: {wrong}")]
        provider, found = provider_in(name, whole, self.words)
        if found and value[KEY] in self.broken:
            return None, [((KEY,), f"the entry {value[KEY]!r}, which this one inherits from, has faults of its own")]
        return provider, found


def content_of(provider: Provider) -> bytes:
    """Return the bytes kept of a provider: the fields that its file has, as JSON."""
    return provider.model_dump_json(exclude_unset=True, exclude_none=True).encode()


def _where(document: CatalogDocument, place: Sequence[str | int]) -> str:
    """``file:line`` of `place`; of the ``alias`` where the value is inherited."""
    if place and isinstance(document.value, Mapping) and place[0] not in document.value and KEY in document.value:
        return document.where(KEY)
    return document.where(*place)


def state_of(folders: Sequence[Path]) -> int:
    """A number that is another one once a file of `folders` was written, came, went or was replaced. Reads no content.

    What a link leads to counts, not the link: a mounted ConfigMap changes by turning one. For comparison in one process.
    """
    seen: list[tuple[object, ...]] = []
    for folder in folders:
        files, _ = files_in(folder)
        seen.append((str(folder), folder.exists()))
        for path in files:
            try:
                status = path.stat()
            except OSError:
                seen.append((path.name,))
            else:
                times = (status.st_mtime_ns, status.st_ctime_ns)
                seen.append((path.name, status.st_dev, status.st_ino, status.st_size, *times))
    return hash(tuple(seen))


def files_in(folder: Path) -> tuple[list[Path], list[CatalogFault]]:
    """The entries of a folder. Names that begin with ``.`` or ``_`` are not entries, nor is what is not YAML.

    A path to a file is that one entry, so that an author can check what is being written.
    """
    if folder.is_file():
        return [folder], []
    try:
        names = sorted(path.name for path in folder.iterdir())  # as text: paths compare twenty times as slowly
    except OSError as wrong:
        return [], [CatalogFault(shown_path(folder), f"the catalog folder cannot be read: {wrong.strerror}")]
    found = [folder / name for name in names if name.endswith(ENDINGS) and name[0] not in "._"]
    faults = [
        CatalogFault(f"{shown_path(path)}:1", f"{path.stem!r} has two files, .yaml and .yml; keep one")
        for path in found
        if path.suffix == ".yml" and path.with_suffix(".yaml") in found
    ]
    return found, faults

"""Checks files of API operations for `gateway catalog lint`, and whether each file fits its catalog entry."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.catalog.api_operations import (
    FILE_ENDING,
    FOLDER,
    GRAPHQL,
    MARKS,
    RISKS,
    OperationFile,
    OperationLine,
    read_file,
)
from gateway.catalog.provider import Provider
from gateway.catalog.yaml_file import CatalogFault, UnreadableFile, shown_path

METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
MAX_STARTERS: Final = 12
MAX_SUMMARY_LENGTH: Final = 90
RESERVED_IDS: Final = frozenset({*RISKS, "starter"})  # keywords of access rules, as in ``operations jira read``
HOST_EXCEPTIONS: Final = {"twitter-v2": "api.twitter.com"}  # the source of these operations has the old host name
_ID: Final = re.compile(r"[a-z][a-z0-9_]{1,59}")
_PATH: Final = re.compile(r"/[!$&-.0-9:=@A-Z_a-z~{}/+*,]*")
_PLACEHOLDER: Final = re.compile(r"\{[A-Za-z0-9_.$@:+~-]+\}")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORIGIN: Final = re.compile(r"https://[a-z0-9.-]+")
_SETTING: Final = re.compile(r"\$\{[^}]*\}|\{[^}]*\}")
_ANY_TEXT: Final = "{}"


def operation_faults(
    folder: Path, providers: Mapping[str, Provider], shipped: Path | None = None
) -> list[CatalogFault]:
    """Return the faults of the files in ``operations/`` of the catalog folder `folder`.

    `providers`: all entries of the catalog, by name. `shipped`: a second catalog folder, whose files ``same_as`` can
    also name; None: no second folder.
    """
    operations_folder = folder / FOLDER
    if not operations_folder.is_dir():
        return []
    files: dict[str, OperationFile] = {}
    faults: list[CatalogFault] = []
    for path in sorted(operations_folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.suffix != FILE_ENDING:
            faults.append(
                CatalogFault(shown_path(path), f"is not a file of operations; their names end in {FILE_ENDING}")
            )
            continue
        try:
            files[path.stem] = read_file(path)
        except UnreadableFile as fault:
            faults.append(fault.fault)
    names = set(files)
    if shipped is not None and (shipped / FOLDER).is_dir():
        names |= {path.stem for path in (shipped / FOLDER).glob(f"*{FILE_ENDING}")}
    for name, file in files.items():
        file_faults = [*_header_faults(name, file, providers.get(name), names), *_lines_faults(file)]
        faults += [CatalogFault(f"{shown_path(file.path)}:{number}", message) for number, message in file_faults]
    return faults


def _header_faults(
    name: str, file: OperationFile, provider: Provider | None, known_names: set[str]
) -> Iterator[tuple[int, str]]:
    header = file.header
    if provider is None:
        yield 1, f"the catalog has no entry {name!r}"
    else:
        yield from ((1, fault) for fault in _base_url_faults(name, provider, header))
    if base_name := header.get("same_as"):
        if base_name not in known_names:
            yield 1, f"same_as names {base_name!r}, which has no file of operations"
        if file.lines:
            yield (
                file.lines[0].number,
                f"has operations of its own and also same_as: {base_name}; keep one of the two",
            )
        return
    for key in ("source", "version", "date", "licence"):
        if not header.get(key):
            yield 1, f"does not say its {key}"
    if header.get("scopes_mode", "any") not in ("any", "all"):
        yield 1, "scopes_mode must be any or all"
    if not file.lines:
        yield 1, "has no operations"
    if sum("starter" in line.values["marks"].split() for line in file.lines) > MAX_STARTERS:
        yield 1, f"has more than {MAX_STARTERS} starters"


def _base_url_faults(name: str, provider: Provider, header: Mapping[str, str]) -> Iterator[str]:
    """Yield a fault if the entry's base URL plus the prefix is not the base URL that the source states."""
    stated_url = header.get("base_url")
    if not stated_url:
        yield "does not say the base_url of its source"
        return
    host, path = _host_and_path(provider.proxy.base_url)
    stated_host, stated_path = _host_and_path(stated_url)
    if not (_matches(host, stated_host) or _matches(stated_host, host) or HOST_EXCEPTIONS.get(name) == stated_host):
        yield f"base_url has the host {stated_host}, the entry has {host}"
    joined_path = (path + _SETTING.sub(_ANY_TEXT, header.get("prefix", ""))).rstrip("/")
    if joined_path != stated_path:
        yield f"the entry's base URL and the prefix make the path {joined_path or '/'}, base_url has {stated_path or '/'}"


def _host_and_path(url: str) -> tuple[str, str]:
    """Return the host and the path of a URL, with ``{}`` in place of each placeholder."""
    text = _SETTING.sub(_ANY_TEXT, url)
    if text.startswith(_ANY_TEXT):
        return _ANY_TEXT, text.removeprefix(_ANY_TEXT).rstrip("/")
    parts = urlsplit(text.replace(_ANY_TEXT, "__any__"))
    return parts.netloc.replace("__any__", _ANY_TEXT), parts.path.replace("__any__", _ANY_TEXT).rstrip("/")


def _matches(pattern: str, host: str) -> bool:
    """Return whether `host` matches `pattern`, in which ``{}`` matches any text of at least one character."""
    return fnmatchcase(host, pattern.replace(_ANY_TEXT, "?*"))


def _lines_faults(file: OperationFile) -> Iterator[tuple[int, str]]:
    ids: set[str] = set()
    requests: set[tuple[str, str]] = set()
    for line in file.lines:
        values = line.values
        if not _ID.fullmatch(values["id"]) or values["id"] in RESERVED_IDS:
            reserved = ", ".join(sorted(RESERVED_IDS))
            yield (
                line.number,
                f"{values['id']!r} is not an id: use 2 to 60 lower-case letters, digits and '_', not {reserved}",
            )
        if values["id"] in ids:
            yield line.number, f"there are two operations {values['id']!r}"
        ids.add(values["id"])
        request = values["method"], _PLACEHOLDER.sub(_ANY_TEXT, values["path"])
        if request in requests:
            yield line.number, f"there are two operations {' '.join(request)}"
        requests.add(request)
        yield from ((line.number, fault) for fault in _line_faults(line, file.header))


def _line_faults(line: OperationLine, header: Mapping[str, str]) -> Iterator[str]:
    values = line.values
    method, path, risk = values["method"], values["path"], values["risk"]
    if method in GRAPHQL:
        if not header.get("graphql_endpoint"):
            yield f"is a {method}, but the file has no graphql_endpoint"
        if not _FIELD.fullmatch(path):
            yield f"{path!r} is not a field of a GraphQL type"
    elif method not in METHODS:
        yield f"the method {method!r} is not one of {', '.join(sorted(METHODS))}"
    else:
        yield from _path_faults(path)
    if method in ("GET", "query") and risk != "read":
        yield f"a {method} must have the risk read, not {risk}"
    if (method == "DELETE" and risk in ("read", "write")) or (method == "mutation" and risk == "read"):
        yield f"a {method} cannot have the risk {risk}"
    marks = values["marks"].split()
    if unknown_marks := sorted(set(marks).difference(MARKS)):
        yield f"the mark {unknown_marks[0]!r} is not one of {', '.join(MARKS)}"
    if values["summary"] != values["summary"].strip() or len(values["summary"]) > MAX_SUMMARY_LENGTH:
        yield f"the summary has more than {MAX_SUMMARY_LENGTH} characters, or begins or ends with a space"


def _path_faults(path: str) -> Iterator[str]:
    origin, path_below_origin = "", path
    if "://" in path:
        match = _ORIGIN.match(path)
        origin, path_below_origin = (match[0], path[match.end() :]) if match else ("", "")
    path_without_placeholders = _PLACEHOLDER.sub("x", path_below_origin)
    if (
        not _PATH.fullmatch(path_without_placeholders)
        or "{" in path_without_placeholders
        or "}" in path_without_placeholders
        or "//" in path_below_origin
        or "}{" in path_below_origin
    ):
        yield f"{path!r} is not a path template, such as /users/{{id}} or https://upload.example.com/files"
    elif any(segment.strip(".") == "" and segment for segment in path_without_placeholders.split("/")):
        yield f"{path!r} has a '.' or '..' segment{' at ' + origin if origin else ''}"

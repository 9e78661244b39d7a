"""Reads the API operations of a provider from a file in ``operations/``, at each use; nothing is kept in memory.

A file (docs/catalog.md#operations) begins with lines ``# key: value``, which say where the operations come from. Then
follow a line of column names, and a line for each operation, with tabs between the fields. A file with ``same_as`` uses
the operations of another entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from gateway.catalog.yaml_file import CatalogFault, UnreadableFile, shown_path

FOLDER: Final = "operations"
FILE_ENDING: Final = ".tsv"
MAX_FILE_BYTES: Final = 512 * 1024
MAX_OPERATIONS: Final = 2000
COLUMNS: Final = ("id", "method", "path", "risk", "marks", "scopes", "query", "summary")
HEADER_KEYS: Final = frozenset(
    {"same_as", "source", "version", "date", "licence", "base_url", "prefix", "note", "scopes_mode", "scope_prefix"}
    | {"graphql_endpoint", "left_out", "corrected"}
)
METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})  # the marks `body` and `bodiless` override this rule
GRAPHQL: Final = frozenset({"query", "mutation"})

Risk = Literal["read", "write", "delete", "admin"]
RISKS: Final[tuple[Risk, ...]] = get_args(Risk)
Mark = Literal["starter", "deprecated", "body", "bodiless"]
MARKS: Final[tuple[Mark, ...]] = get_args(Mark)


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """An operation of a provider's API.

    `path`: the path below the base URL and the prefix, with ``{parameters}``; for GraphQL, the path of the endpoint.
    `scopes`: the full names of the scopes in the provider's documentation; empty if the documentation states none.
    `query`: the names of some query parameters; for GraphQL, the names of arguments. `origin`: the URL's origin if it
    differs from the base URL's origin, else empty; with an origin, the prefix is not added to `path`. `graphql`:
    ``query`` or ``mutation``; empty if the operation is not GraphQL. `field`: for GraphQL, the field of the root type.
    """

    id: str
    method: str
    path: str
    risk: Risk
    summary: str = ""
    scopes: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    body: bool = False
    starter: bool = False
    deprecated: bool = False
    origin: str = ""
    graphql: str = ""
    field: str = ""

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether each of `words` occurs in the operation's id, path, field or summary.

        `words` must be in lower case.
        """
        text = f"{self.id} {self.id.replace('_', ' ')} {self.path} {self.field} {self.summary}".casefold()
        return all(word in text for word in words)


@dataclass(frozen=True, slots=True)
class ProviderOperations:
    """The API operations of a provider.

    `provider`: the name of the provider's entry. `listed_for`: the entry whose file lists the operations: `provider`,
    or the entry that ``same_as`` names. `prefix`: the text between the entry's `proxy.base_url` and an operation's
    `path`. `header`: the header lines of the file, such as source, version, date and licence; `HEADER_KEYS` has all
    keys.
    """

    provider: str
    listed_for: str
    prefix: str
    header: Mapping[str, str]
    operations: tuple[ApiOperation, ...]

    @property
    def every_scope(self) -> bool:
        """Whether an operation needs all of its scopes. Otherwise any one of its scopes is enough."""
        return self.header.get("scopes_mode") == "all"

    @property
    def is_graphql(self) -> bool:
        return bool(self.header.get("graphql_endpoint"))

    def find(
        self, search: str = "", risk: str | None = None, scope: str | None = None, *, starter: bool = False
    ) -> list[ApiOperation]:
        """Return the operations that contain all words of `search`.

        `risk`: the risk that the operations must have; None: any risk. `scope`: the scope that the operations must
        name; None: any scopes. `starter`: whether to return only operations with the mark ``starter``.
        """
        words = search.casefold().split()
        return [
            operation
            for operation in self.operations
            if (risk is None or operation.risk == risk)
            and (scope is None or scope in operation.scopes)
            and (operation.starter or not starter)
            and operation.matches(words)
        ]


@dataclass(frozen=True, slots=True)
class OperationLine:
    """An operation as written in its file. `number`: the line number. `values`: the text of each column, by name."""

    number: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OperationFile:
    """The content of a file of operations. `header`: the header lines by key. `lines`: the operations."""

    path: Path
    header: Mapping[str, str]
    lines: tuple[OperationLine, ...]


def operations_path(folder: Path, provider: str) -> Path:
    """Return the path of the file for the operations of `provider` in the catalog folder `folder`."""
    return folder / FOLDER / f"{provider}{FILE_ENDING}"


def read_operations(folders: Sequence[Path], provider: str) -> ProviderOperations | None:
    """Read the operations of `provider` from the first catalog folder that has a file for this provider.

    Return None if no folder has such a file. Raises UnreadableFile if a file cannot be read, or if ``same_as`` names an
    entry without operations of its own.
    """
    own_path = next((path for folder in folders if (path := operations_path(folder, provider)).is_file()), None)
    if own_path is None:
        return None
    own_file = read_file(own_path)
    base_name = own_file.header.get("same_as")
    if base_name is None:
        return _provider_operations(provider, provider, own_file, own_file)
    base_path = next((path for folder in folders if (path := operations_path(folder, base_name)).is_file()), None)
    if base_path is None:
        raise unreadable(own_path, 1, f"same_as names {base_name!r}, which has no file of operations")
    base_file = read_file(base_path)
    if "same_as" in base_file.header:
        raise unreadable(
            own_path,
            1,
            f"same_as names {base_name!r}, which has no operations of its own; name the entry that has them",
        )
    return _provider_operations(provider, base_name, own_file, base_file)


def _provider_operations(
    provider: str, listed_for: str, own_file: OperationFile, listed_file: OperationFile
) -> ProviderOperations:
    header = {**listed_file.header, **own_file.header}
    prefix = own_file.header.get("prefix", "")
    endpoint, scope_prefix = header.get("graphql_endpoint", ""), header.get("scope_prefix", "")
    operations = tuple(_operation(line.values, endpoint, scope_prefix) for line in listed_file.lines)
    return ProviderOperations(provider, listed_for, prefix, header, operations)


def _operation(values: Mapping[str, str], endpoint: str, scope_prefix: str) -> ApiOperation:
    method, path, marks = values["method"], values["path"], values["marks"].split()
    graphql = method if method in GRAPHQL else ""
    origin = ""
    if path.startswith("https://"):
        host, slash, path_after_host = path.removeprefix("https://").partition("/")
        origin, path = f"https://{host}", slash + path_after_host
    scopes = (scope if scope.startswith("http") else scope_prefix + scope for scope in values["scopes"].split())
    return ApiOperation(
        id=values["id"],
        method="POST" if graphql else method,
        path=endpoint if graphql else path,
        risk=cast(Risk, values["risk"]),
        summary=values["summary"],
        scopes=tuple(scopes),
        query=tuple(values["query"].split()),
        body="body" in marks or ("bodiless" not in marks and (bool(graphql) or method in METHODS_WITH_BODY)),
        starter="starter" in marks,
        deprecated="deprecated" in marks,
        origin=origin,
        graphql=graphql,
        field=path if graphql else "",
    )


def read_file(path: Path) -> OperationFile:
    """Read the file of operations at `path`. `catalog.operation_checks` validates the operations later.

    Raises UnreadableFile if the file is missing, not UTF-8, too large, or has an unknown header, column or risk.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise unreadable(path, 1, f"has more than {MAX_FILE_BYTES} bytes")
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as fault:
        raise unreadable(path, 1, f"cannot be read: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise unreadable(path, 1, "is not UTF-8") from fault
    header: dict[str, str] = {}
    lines: list[OperationLine] = []
    columns: Sequence[str] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("# "):
            key, colon, value = line.removeprefix("# ").partition(": ")
            if not colon or key not in HEADER_KEYS or key in header or lines:
                known_keys = ", ".join(sorted(HEADER_KEYS))
                raise unreadable(
                    path,
                    number,
                    f"must be '# key: value' above the operations, once per key; the keys are {known_keys}",
                )
            header[key] = value
        elif not columns and line:
            columns = line.split("\t")
            if tuple(columns) != COLUMNS:
                raise unreadable(path, number, f"must name the columns, with tabs between them: {' '.join(COLUMNS)}")
        elif line:
            lines.append(OperationLine(number, _parse_line(path, number, line)))
    if len(lines) > MAX_OPERATIONS:
        raise unreadable(path, lines[-1].number, f"has more than {MAX_OPERATIONS} operations")
    return OperationFile(path, header, tuple(lines))


def _parse_line(path: Path, number: int, line: str) -> dict[str, str]:
    fields = line.split("\t")
    if not 4 <= len(fields) <= len(COLUMNS):
        raise unreadable(
            path, number, f"must have 4 to {len(COLUMNS)} fields with tabs between them, not {len(fields)}"
        )
    values = dict(zip(COLUMNS, [*fields, *[""] * (len(COLUMNS) - len(fields))], strict=True))
    if values["risk"] not in RISKS:
        raise unreadable(path, number, f"has the unknown risk {values['risk']!r}; use one of {', '.join(RISKS)}")
    return values


def unreadable(path: Path, number: int, message: str) -> UnreadableFile:
    """Return an error about line `number` of the file `path`."""
    return UnreadableFile(CatalogFault(f"{shown_path(path)}:{number}", message))


# ── Scopes that operations need.


@dataclass(frozen=True, slots=True)
class ScopesNeeded:
    """The scopes that a set of operations needs.

    `all_of`: each of these scopes is required. `any_of`: groups of scopes; one scope of each group is required. A group
    that another requirement covers is left out. `unstated`: the ids of the operations whose scopes are not documented.
    """

    all_of: tuple[str, ...]
    any_of: tuple[tuple[str, ...], ...]
    unstated: tuple[str, ...]

    def missing(self, granted: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return the groups of scopes that have no scope in `granted`. Each scope of `all_of` is a group of its own.

        To satisfy the requirements, one scope of each returned group must be added.
        """
        granted_scopes = set(granted)
        groups = (*((scope,) for scope in self.all_of), *self.any_of)
        return tuple(group for group in groups if not granted_scopes.intersection(group))

    def unneeded_scopes(self, granted_scopes: Sequence[str]) -> tuple[str, ...]:
        """Return the scopes in `granted_scopes` that no operation names. An operation in `unstated` can still need a scope."""
        named_scopes = {*self.all_of, *(scope for group in self.any_of for scope in group)}
        return tuple(scope for scope in granted_scopes if scope not in named_scopes)


def scopes_needed(provider: ProviderOperations, operations: Sequence[ApiOperation]) -> ScopesNeeded:
    """Return the scopes that these operations of `provider` need, as stated in the operations' sources.

    If one of several scopes is enough (`ProviderOperations.every_scope` is false), the reader chooses the scope to
    request. Only for Microsoft, the first scope in the file is the least privileged. `missing` and `unneeded_scopes`
    compare the result with granted scopes, as text: they do not know that scopes such as ``repo`` or ``Mail.ReadWrite``
    include other scopes. `unneeded_scopes` also returns scopes that belong to no API operation, such as
    ``offline_access`` or ``openid``.
    """
    all_of: dict[str, None] = {}
    any_of: dict[tuple[str, ...], None] = {}
    for operation in operations:
        if provider.every_scope or len(operation.scopes) == 1:
            all_of |= dict.fromkeys(operation.scopes)
        elif operation.scopes:
            any_of[tuple(sorted(operation.scopes))] = None
    groups = [group for group in any_of if not all_of.keys() & set(group)]
    smallest_groups = [group for group in groups if not any(set(other_group) < set(group) for other_group in groups)]
    unstated = tuple(operation.id for operation in operations if not operation.scopes)
    return ScopesNeeded(tuple(sorted(all_of)), tuple(sorted(smallest_groups)), unstated)


# ── JSON for the API and the CLI.

_PROVENANCE: Final = ("source", "version", "date", "licence", "note", "left_out", "corrected")


def provenance(provider: ProviderOperations) -> dict[str, str]:
    """Return where the operations come from: source, version, date, licence and notes, from the file's header."""
    return {key: provider.header[key] for key in _PROVENANCE if key in provider.header}


def scopes_json(
    provider: ProviderOperations, operations: Sequence[ApiOperation], granted_scope: str | None = None
) -> dict[str, Any]:
    """Return the result of `scopes_needed` as the JSON object that the API and the CLI show.

    `granted_scope`: scopes that are compared with the needed scopes, separated by spaces or commas; None: no comparison.
    """
    needed_scopes = scopes_needed(provider, operations)
    scopes_object: dict[str, Any] = {
        "all_of": list(needed_scopes.all_of),
        "any_of": [list(group) for group in needed_scopes.any_of],
        "unstated": len(needed_scopes.unstated),
    }
    if granted_scope is not None:
        scopes = granted_scope.replace(",", " ").split()
        scopes_object["missing"] = [list(group) for group in needed_scopes.missing(scopes)]
        scopes_object["unneeded"] = list(needed_scopes.unneeded_scopes(scopes))
    return scopes_object


def api_operation_json(operation: ApiOperation, prefix: str) -> dict[str, Any]:
    """Return an operation as the JSON object that the API and the CLI show.

    `prefix`: put before the operation's path, unless the operation has its own `origin`.
    """
    return dict(_json_members(operation, prefix))


def _json_members(operation: ApiOperation, prefix: str) -> Iterator[tuple[str, Any]]:
    yield "id", operation.id
    yield "method", operation.method
    yield "path", operation.path if operation.origin else prefix + operation.path
    yield "risk", operation.risk
    if operation.summary:
        yield "summary", operation.summary
    if operation.scopes:
        yield "scopes", list(operation.scopes)
    if operation.query:
        yield "query", list(operation.query)
    yield "body", operation.body
    for key in ("starter", "deprecated"):
        if getattr(operation, key):
            yield key, True
    for key in ("origin", "graphql", "field"):
        if value := getattr(operation, key):
            yield key, value

"""Code and documents refer to things that exist: documents, their sections, decisions, modules and files."""

import ast
import gc
import importlib
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("gateway", "middleware", "bench", "tools")
# Documents about the past keep the names of their time.
OF_THE_PAST: Final = ("CHANGELOG.md", "docs/adr/")

_DOCUMENT = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)(#[\w-]+)?")
_DECISION = re.compile(r"ADRs? (\d+)")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")
_MODULE = re.compile(r"(?<![\w./-])gateway(?:\.[A-Za-z_]\w*)+")
_FILE = re.compile(
    r"(?<![\w./<*{}~-])((?:[a-z_][\w-]*/)+[\w-]+\.(?:py|html|yaml|toml|svg|js|css|md|conf|cfg|service))\b"
)
_BARE = re.compile(r"(?<![\w./<*{}-])([a-z_]\w*\.py)\b")
# Matches dotted names: `oauth.error_codes`, `http.url.parse_proxied_target`, `Policy.decision`, `backoff.api_verdict`.
_DOTTED = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`(?!`)")
# Finds what Python's `tokenize` finds, at a twentieth of the cost.
_STRING_OR_COMMENT = re.compile(
    r"""("{3}|'{3})(?:\\.|.)*?\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*""", re.DOTALL
)
_NAME = re.compile(r"\b[^\W\d]\w*")
_WORD = re.compile(r"(?<!`)`([A-Za-z_]\w*)(?:\(\))?`(?!`)")
# Packages of release 0.2.0 that no longer exist; their content is in other packages.
GONE: Final = frozenset({"courier", "forward", "keys", "lean", "live", "logs", "metrics", "webhooks", "wire"})
# Names that look like modules of the gateway, but belong to operators, examples or products.
OTHERS: Final = frozenset({
    "gateway.auth_modes", "gateway.calls", "gateway.db", "gateway.example", "gateway.lock", "gateway.log", "gateway.service",
    "gateway.socket", "gateway.yaml",
})  # fmt: skip
# Names of span attributes.
ATTRIBUTES: Final = frozenset(re.findall(r'"(gateway(?:\.[a-z_]+)+)"', (ROOT / "gateway/observe/spans.py").read_text()))
# Dotted names that look like modules, but are keys of gateway.yaml or of a catalog entry (documented in SECTIONS), or
# attributes of an object (OBJECTS).
SECTIONS: Final = ("docs/configuration.md", "docs/catalog.md")
OBJECTS: Final = frozenset({"app.cleanup_ctx", "delivery.attempts", "segment.counted"})
FILES: Final = (".py", ".yaml", ".md")
# Names of libraries and in providers' responses.
LIBRARY_NAMES: Final = ("BaseRequest.", "Request.")
FOREIGN: Final = frozenset({"awatch", "authed_user"})
# Files that a reader creates, and those of an installed wheel.
MADE: Final = frozenset({"gateway/data/gateway.yaml"})


@cache
def tracked_files() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file()))


@cache
def folders() -> frozenset[str]:
    return frozenset(str(parent) for name in tracked_files() for parent in Path(name).parents)


def tree_of(source: str) -> ast.Module:
    collects = gc.isenabled()
    gc.disable()  # the collector would traverse every new node, again and again
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def is_docstring(lexeme: re.Match[str]) -> bool:
    """Return whether the string is in triple quotes at the start of a line. To parse all files would take much longer."""
    before = lexeme.string[lexeme.string.rfind("\n", 0, lexeme.start()) + 1 : lexeme.start()]
    return lexeme[0].startswith('"""') and before.strip() in ("", "r")


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments and docstrings of Python code, with their line numbers."""
    line = counted = 0
    for lexeme in _STRING_OR_COMMENT.finditer(source):
        is_comment = lexeme[0].startswith("#")
        if is_comment or is_docstring(lexeme):
            line += source.count("\n", counted, lexeme.start())
            counted = lexeme.start()
            yield from enumerate([lexeme[0]] if is_comment else lexeme[0][3:-3].splitlines(), line + 1)


@cache
def prose() -> tuple[tuple[str, int, str], ...]:
    """Return every line for readers as (file, number, text). For code, only comments and docstrings."""
    lines: list[tuple[str, int, str]] = []
    for name in tracked_files():
        path = ROOT / name
        if name.endswith(".py") and name.startswith((*(f"{package}/" for package in PACKAGES), "tests/")):
            lines += [(name, number, line) for number, line in prose_of(path.read_text())]
        elif name.endswith((".md", "Makefile", ".toml")) and not name.startswith(("tests/sdks/", "bench/peers/")):
            lines += [(name, number, line) for number, line in enumerate(path.read_text().splitlines(), 1)]
    return tuple(lines)


def current() -> Iterator[tuple[str, int, str]]:
    return (line for line in prose() if not line[0].startswith(OF_THE_PAST))


@cache
def anchors(document: str) -> frozenset[str]:
    """Return the sections of a document under GitHub's anchor names."""
    seen: dict[str, int] = {}
    found = set()
    fenced = False
    for line in (ROOT / document).read_text().splitlines():
        fenced ^= line.startswith("```")
        heading = re.match(r"#{1,6} (.*)", line)
        if heading is None or fenced:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        again = seen.get(slug, 0)
        seen[slug] = again + 1
        found.add(f"{slug}-{again}" if again else slug)
    return frozenset(found)


def test_the_prose_of_code_is_found() -> None:
    lines = [line for _, line in prose_of('"""One."""\nx = 1  # two\n\ndef f():\n    """Three\n    four."""\n')]
    assert lines == ["One.", "# two", "Three", "    four."]
    assert len(prose()) > 5000


def test_every_document_that_is_cited_exists_and_has_the_section() -> None:
    wrong = [
        f"{name}:{number}: {found[0]}"
        for name, number, line in prose()
        for found in _DOCUMENT.finditer(line)
        if found[1] not in tracked_files() or (found[2] and found[2][1:] not in anchors(found[1]))
    ]
    assert wrong == []


def test_every_link_in_a_document_has_a_target() -> None:
    wrong = []
    for name, number, line in prose():
        if not name.endswith(".md"):
            continue
        for found in _LINK.finditer(line):
            target = (ROOT / name).parent / found[1] if found[1] else ROOT / name
            if not target.exists():
                wrong.append(f"{name}:{number}: {found[1]}")
            elif found[2] and target.suffix == ".md":
                page = str(target.resolve().relative_to(ROOT))
                if found[2][1:] not in anchors(page):
                    wrong.append(f"{name}:{number}: {found[0]}")
    assert wrong == []


def test_every_decision_that_is_cited_exists() -> None:
    existing = {int(path.name[:4]) for path in (ROOT / "docs/adr").glob("*.md")}
    wrong = [
        f"{name}:{number}: {found[0]}"
        for name, number, line in prose()
        for found in _DECISION.finditer(line)
        if int(found[1]) not in existing
    ]
    assert wrong == []


def test_no_citation_is_of_a_document_outside_the_repository() -> None:
    wrong = [
        f"{name}:{number}: {line.strip()}"
        for name, number, line in prose()
        if name != "tests/test_references_below_the_base_url_are_rewritten.py"
        and re.search(r"api-contract|\brequirement \d|\bseed section", line)
    ]
    assert wrong == []


def exists(dotted: str) -> bool:
    """Return whether `dotted` is a module or package of the repository, or a name in one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:cut])
        if path.is_dir() or path.with_suffix(".py").is_file():
            if cut == len(parts):
                return True
            value: object = importlib.import_module(".".join(parts[:cut]))
            for part in parts[cut:]:
                if not hasattr(value, part):
                    return False
                value = getattr(value, part)
            return True
    return False


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("gateway.access", True),
        ("gateway.access.scopes.SCOPES", True),
        ("gateway.middleware.surfaces", True),
        ("gateway.forward.head", False),
        ("gateway.access.scopes.NOTHING", False),
    ],
)
def test_a_name_of_a_module_is_looked_up(dotted: str, expected: bool) -> None:
    assert exists(dotted) is expected


def test_every_module_that_is_named_in_full_exists() -> None:
    wrong = [
        f"{name}:{number}: {found[0]}"
        for name, number, line in current()
        for found in _MODULE.finditer(line)
        if not any(found[0] == other or found[0].startswith(f"{other}.") for other in OTHERS | ATTRIBUTES)
        if name != "tests/test_references_below_the_base_url_are_rewritten.py" and not exists(found[0])
    ]
    assert wrong == []


@cache
def settings() -> frozenset[str]:
    """Return `section.key` of gateway.yaml and of catalog entries, from their reference pages."""
    pages = "\n".join((ROOT / page).read_text() for page in SECTIONS)
    return frozenset(re.findall(r"(?=\b([a-z_]+\.[a-z_]+))", pages)) | frozenset(
        re.findall(r"[a-z_]+(?:\.[a-z_]+)+", pages)
    )


@cache
def code() -> tuple[tuple[str, ast.Module], ...]:
    """Return the gateway's modules as (file, tree)."""
    files = (name for name in tracked_files() if name.endswith(".py") and name.startswith(("gateway/", "middleware/")))
    return tuple((name, tree_of((ROOT / name).read_text())) for name in files)


@cache
def classes() -> dict[str, frozenset[str]]:
    """Return the members of each class of the gateway: its own, and those of base classes in the gateway."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for _, tree in code():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).update(members(node))
                bases.setdefault(node.name, set()).update(b.id for b in node.bases if isinstance(b, ast.Name))

    def all_of(name: str) -> set[str]:
        return own.get(name, set()).union(*(all_of(base) for base in bases.get(name, ()) if base != name))

    return {name: frozenset(all_of(name)) for name in own}


def members(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield part.name
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id
        elif isinstance(part, ast.Assign):
            yield from (target.id for target in part.targets if isinstance(target, ast.Name))
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield part.attr


@cache
def modules() -> dict[str, tuple[str, ...]]:
    """Return modules by the last part of their name."""
    found: dict[str, tuple[str, ...]] = {}
    for name, _ in code():
        path = Path(name)
        if path.name != "__init__.py":
            dotted = ".".join(path.with_suffix("").parts)
            found[path.stem] = (
                *found.get(path.stem, ()),
                f"gateway.{dotted}" if name.startswith("middleware") else dotted,
            )
    return found


def is_named(dotted: str) -> bool | None:
    """Return whether the code has what `dotted` names; None if it does not name anything of the gateway."""
    head, _, rest = dotted.partition(".")
    if dotted in words():
        return True
    within = re.search(r"\b([A-Z]\w*)\.(\w+)", rest)
    if within is not None and within[1] in classes():
        return within[2] in classes()[within[1]]
    if (ROOT / "gateway" / head / "__init__.py").exists():
        return exists(f"gateway.{dotted}")
    if head in classes():
        return rest.partition(".")[0] in classes()[head]
    if head in modules():
        return any(exists(f"{module}.{rest}") for module in modules()[head])
    return False if head in GONE or head[0].isupper() else None


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("http.url.parse_proxied_target", True),
        ("Policy.decision", True),
        ("RefreshProtocol.fact_collector", True),
        ("backoff.api_verdict", True),
        ("StateTrigger.RENEWED", True),
        ("McpOAuth2.renew", True),
        ("wire.url.parse_proxied_target", False),
        ("http.url.gone", False),
        ("Policy.breach", False),
        ("Live.follow", False),
        ("backoff.refusal_rules", False),
        ("request.protocol", None),
        ("connection.expiring", True),
        ("folder.CatalogEntry.content", True),
        ("folder.CatalogEntry.gone", False),
    ],
)
def test_a_dotted_name_is_looked_up(dotted: str, expected: bool | None) -> None:
    assert is_named(dotted) is expected


def test_every_dotted_name_in_code_and_on_the_map_exists() -> None:
    wrong = []
    for name, number, line in current():
        if name.startswith(("gateway/", "middleware/")) or name == "docs/architecture.md":
            wrong += [
                f"{name}:{number}: {dotted}"
                for dotted in _DOTTED.findall(line)
                if dotted not in settings() and dotted not in OBJECTS and not dotted.startswith(LIBRARY_NAMES)
                if not dotted.endswith(FILES) and is_named(dotted) is False
            ]
    assert wrong == []


@cache
def words() -> frozenset[str]:
    """Return every identifier in the gateway's code, and every word of its strings except docstrings."""
    found: set[str] = set()
    for name, _ in code():
        source = (ROOT / name).read_text()
        found.update(Path(name).with_suffix("").parts)
        found.update(_NAME.findall(_STRING_OR_COMMENT.sub(" ", source)))
        for lexeme in _STRING_OR_COMMENT.finditer(source):
            if not lexeme[0].startswith("#") and not is_docstring(lexeme):
                found.update(re.findall(r"\w+", lexeme[0]))
                found.update(re.findall(r"^[a-z]\w*\.\w+$", lexeme[0].strip("\"'")))  # names of events
    return frozenset(found)


def test_every_name_in_a_comment_or_docstring_is_one_of_the_code() -> None:
    assert "api_verdict" in words()
    assert "refusal_rules" not in words()
    wrong = [
        f"{name}:{number}: {word}"
        for name, number, line in current()
        if name.startswith(("gateway/", "middleware/"))
        for word in _WORD.findall(line)
        if word not in words() and word not in FOREIGN
    ]
    assert wrong == []


@cache
def used_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return the attributes and names that the gateway's code reads, calls or imports. A definition is not a use."""
    attributes, names = set[str](), set[str]()
    for _, tree in code():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.ImportFrom):
                names.update(alias.name for alias in node.names)
    return frozenset(attributes), frozenset(names | attributes)


def defined_names() -> frozenset[str]:
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    return frozenset(node.name for _, tree in code() for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_function_and_class_on_the_map_is_used() -> None:
    """A function that nothing calls cannot be a step of a described path."""
    page = (ROOT / "docs/architecture.md").read_text()
    dotted = [name for name in _DOTTED.findall(page) if not name.endswith(FILES) and is_named(name)]
    methods = {name.rpartition(".")[2] for name in dotted if name[0].isupper()}
    others = {name.rpartition(".")[2] for name in dotted if not name[0].isupper()} | defined_names() & set(
        _WORD.findall(page)
    )
    others -= modules().keys()
    assert {"decision", "run"} <= methods
    assert {"generation_of", "TargetPace", "apply_accepted"} <= others
    attributes, names = used_names()
    assert "breach" not in attributes
    assert (sorted(methods - attributes), sorted(others - names)) == ([], [])


def test_every_file_that_is_named_exists() -> None:
    top = {Path(folder).name for folder in folders()}
    names = {Path(file).name for file in tracked_files()}
    wrong = []
    for name, number, line in current():
        for found in _FILE.findall(line):
            places = (found, f"gateway/{found}", f"{Path(name).parent}/{found}", f"tests/{found}")
            if (
                found.split("/")[0] in top
                and found not in MADE
                and not any(place in tracked_files() for place in places)
            ):
                wrong.append(f"{name}:{number}: {found}")
        if name.startswith(("gateway/", "middleware/")):
            wrong += [f"{name}:{number}: {found}" for found in _BARE.findall(line) if found not in names]
    assert wrong == []

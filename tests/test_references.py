"""What code and documents refer to exists: documents, their sections, decisions, modules and files."""

import ast
import importlib
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("gateway", "middleware", "bench", "tools")
# A document that tells of the past keeps the names of its time.
OF_THE_PAST: Final = ("CHANGELOG.md", "docs/adr/")

_DOCUMENT = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)(#[\w-]+)?")
_DECISION = re.compile(r"ADRs? (\d+)")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")
_MODULE = re.compile(r"(?<![\w./-])gateway(?:\.[A-Za-z_]\w*)+")
_FILE = re.compile(
    r"(?<![\w./<*{}~-])((?:[a-z_][\w-]*/)+[\w-]+\.(?:py|html|yaml|toml|svg|js|css|md|conf|cfg|service))\b"
)
# Two words of one package, as comments name a module of another package: `oauth.error_codes`.
_BARE = re.compile(r"(?<![\w./<*{}-])([a-z_]\w*\.py)\b")
_SHORT = re.compile(r"`([a-z_]+)\.([a-z_]+)`")
# Packages of release 0.2.0 that are no more; what stands under them is in other packages now.
GONE: Final = frozenset({"courier", "forward", "keys", "lean", "live", "logs", "metrics", "webhooks", "wire"})
# Names that look like ours and are not: an operator's, an example's, a product's.
OTHERS: Final = frozenset({
    "gateway.auth_modes", "gateway.calls", "gateway.db", "gateway.example", "gateway.lock", "gateway.log", "gateway.service",
    "gateway.socket", "gateway.yaml",
})  # fmt: skip
# Attributes of spans.
ATTRIBUTES: Final = frozenset(re.findall(r'"(gateway(?:\.[a-z_]+)+)"', (ROOT / "gateway/observe/spans.py").read_text()))
# In short form, where a package shares its name with a section of gateway.yaml, of a catalog entry, or with an object.
SECTIONS: Final = ("docs/configuration.md", "docs/catalog.md")
OBJECTS: Final = frozenset({"app.cleanup_ctx"})
# Files that a reader makes, and those of an installed wheel.
MADE: Final = frozenset({"gateway/data/gateway.yaml"})


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file()))


@cache
def folders() -> frozenset[str]:
    return frozenset(str(parent) for name in tracked() for parent in Path(name).parents)


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of Python code, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.splitlines(), node.lineno)


@cache
def prose() -> tuple[tuple[str, int, str], ...]:
    """Every line that a person reads: (file, number, text). Of code, comments and docstrings alone."""
    lines: list[tuple[str, int, str]] = []
    for name in tracked():
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
    """The sections of a document as GitHub names them in an address."""
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
    assert lines == ["# two", "One.", "Three", "    four."]
    assert len(prose()) > 5000


def test_every_document_that_is_cited_exists_and_has_the_section() -> None:
    wrong = [
        f"{name}:{number}: {found[0]}"
        for name, number, line in prose()
        for found in _DOCUMENT.finditer(line)
        if found[1] not in tracked() or (found[2] and found[2][1:] not in anchors(found[1]))
    ]
    assert wrong == []


def test_every_link_of_a_document_leads_somewhere() -> None:
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
    there = {int(path.name[:4]) for path in (ROOT / "docs/adr").glob("*.md")}
    wrong = [
        f"{name}:{number}: {found[0]}"
        for name, number, line in prose()
        for found in _DECISION.finditer(line)
        if int(found[1]) not in there
    ]
    assert wrong == []


def test_no_citation_is_of_a_document_outside_the_repository() -> None:
    wrong = [
        f"{name}:{number}: {line.strip()}"
        for name, number, line in prose()
        if name != "tests/test_references.py" and re.search(r"api-contract|\brequirement \d|\bseed section", line)
    ]
    assert wrong == []


def exists(dotted: str) -> bool:
    """Whether `dotted` is a module or package of ours, or a name in one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:cut])
        if path.is_dir() or path.with_suffix(".py").is_file():
            if cut == len(parts):
                return True
            here: object = importlib.import_module(".".join(parts[:cut]))
            for part in parts[cut:]:
                if not hasattr(here, part):
                    return False
                here = getattr(here, part)
            return True
    return False


@pytest.mark.parametrize(
    ("dotted", "there"),
    [
        ("gateway.access", True),
        ("gateway.access.scopes.SCOPES", True),
        ("gateway.middleware.surfaces", True),
        ("gateway.forward.head", False),
        ("gateway.access.scopes.NOTHING", False),
    ],
)
def test_a_name_of_a_module_is_looked_up(dotted: str, there: bool) -> None:
    assert exists(dotted) is there


def test_every_module_that_is_named_in_full_exists() -> None:
    wrong = [
        f"{name}:{number}: {found[0]}"
        for name, number, line in current()
        for found in _MODULE.finditer(line)
        if not any(found[0] == other or found[0].startswith(f"{other}.") for other in OTHERS | ATTRIBUTES)
        if name != "tests/test_references.py" and not exists(found[0])
    ]
    assert wrong == []


@cache
def settings() -> frozenset[str]:
    """`section.key` of gateway.yaml and of catalog entries, as their reference pages have them."""
    pages = "\n".join((ROOT / page).read_text() for page in SECTIONS)
    return frozenset(f"{section}.{key}" for section, key in re.findall(r"([a-z_]+)\.([a-z_]+)", pages))


def test_every_module_that_is_named_by_its_package_exists() -> None:
    ours = {path.name for path in (ROOT / "gateway").iterdir() if (path / "__init__.py").exists()}
    wrong = []
    for name, number, line in current():
        if not name.startswith(("gateway/", "middleware/")):
            continue
        for package, module in _SHORT.findall(line):
            short = f"{package}.{module}"
            if short in settings() or short in OBJECTS:
                continue
            if package in GONE or (package in ours and not exists(f"gateway.{short}")):
                wrong.append(f"{name}:{number}: {short}")
    assert wrong == []


def test_every_file_that_is_named_exists() -> None:
    top = {Path(one).name for one in folders()}
    names = {Path(one).name for one in tracked()}
    wrong = []
    for name, number, line in current():
        for found in _FILE.findall(line):
            places = (found, f"gateway/{found}", f"{Path(name).parent}/{found}", f"tests/{found}")
            if found.split("/")[0] in top and found not in MADE and not any(place in tracked() for place in places):
                wrong.append(f"{name}:{number}: {found}")
        if name.startswith(("gateway/", "middleware/")):
            wrong += [f"{name}:{number}: {found}" for found in _BARE.findall(line) if found not in names]
    assert wrong == []

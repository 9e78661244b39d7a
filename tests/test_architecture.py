"""docs/architecture.md describes the present code, and every package introduces itself."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tools.architecture_docs import docstring, floors, packages

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs/architecture.md").read_text()
PACKAGES: Final = dict(packages())
MIN_LINES, MAX_LINES = 8, 22
"""Lines of a package's docstring: fewer say too little, more belong on a page of their own."""


def names_in_list(text: str) -> list[str]:
    """Return the names in the left column of a docstring's list, which is indented. Two spaces end the column."""
    columns = re.findall(r"^    (\w[\w, ]*?)  +\S", text, re.MULTILINE)
    return [name.strip() for column in columns for name in column.split(",")]


def modules_and_packages_in(folder: Path) -> set[str]:
    """Return the modules and packages in a folder."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py") if not path.parent.is_symlink()}


def test_the_list_of_files_in_a_docstring_is_read() -> None:
    text = "Subject.\n\nProse, not  a list.\n\n    one, two   both\n    three      the third\n\nAlways true: nothing."
    assert names_in_list(text) == ["one", "two", "three"]


def test_packages_are_found() -> None:
    assert {"gateway", "gateway.refresh", "gateway.store.sqlite", "gateway.middleware"} <= set(PACKAGES)
    assert len(PACKAGES) > 35


def test_package_is_on_the_page() -> None:
    rows = {name: f"| [`{folder.relative_to(ROOT)}/`]" for name, folder in PACKAGES.items() if name != "gateway"}
    assert [name for name, row in rows.items() if row not in PAGE] == []


def test_a_package_docstring_has_a_summary_and_says_what_is_always_true() -> None:
    for name, folder in PACKAGES.items():
        text = docstring(folder)
        subject, _, rest = text.partition("\n\n")
        assert subject.endswith("."), name
        assert "\n" not in subject, f"docs/architecture.md shows only the first line of {name}"
        assert "Always true: " in rest, name
        assert MIN_LINES <= len(text.splitlines()) <= MAX_LINES, name


def test_a_package_lists_each_of_its_files_once() -> None:
    for name, folder in PACKAGES.items():
        wanted = modules_and_packages_in(folder)
        if name == "gateway":  # docs/architecture.md lists its packages
            wanted = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        if name == "gateway.store.migrations.versions":  # their names state their order
            wanted = set()
        assert sorted(names_in_list(docstring(folder))) == sorted(wanted), name


def test_every_floor_is_on_the_page() -> None:
    assert len(floors()) > 15
    assert [name for floor in floors() for name in floor if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize(
    "subject",
    [
        *("a proxied request", "a refresh", "a connect flow", "a configuration reload"),
        *("Which process does what", "Where a new … goes", "Where is …", "Glossary"),
    ],
)
def test_page_has_the_section(subject: str) -> None:
    assert re.search(rf"^## .*{re.escape(subject)}", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    "new",
    [
        *("provider", "auth mode", "API endpoint", "CLI command", "event", "table or column", "metric"),
        *("configuration key", "Gateway header in a request", "Gateway header in a response"),
    ],
)
def test_the_architecture_page_says_where_a_new_part_goes(new: str) -> None:
    (row,) = re.findall(rf"^\| {re.escape(new)} \| (.*) \|$", PAGE, re.MULTILINE)
    assert "`" in row


def test_the_page_names_every_file_that_names_an_auth_mode() -> None:
    from gateway.catalog.auth_modes import AUTH_MODES

    (row,) = re.findall(r"^\| auth mode \| (.*) \|$", PAGE, re.MULTILINE)
    section = PAGE.partition("\n### Files that know auth modes\n")[2].partition("\n## ")[0]
    names = re.findall(r"`(gateway/[\w/]+(?:\.py)?)`", row + section)
    mentioned = [place for place in names if (ROOT / place).exists()]
    found = set()
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        name, source = str(path.relative_to(ROOT)), path.read_text()
        if not any(mode in source for mode in AUTH_MODES):
            continue
        constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
        if (
            not path.is_symlink()
            and not name.startswith("gateway/middleware/")
            and AUTH_MODES.keys() & set(map(str, constants))
        ):
            found.add(name)
    examples = {"gateway/openapi/operations.py", "gateway/openapi/response_examples.py"}  # examples of bodies
    assert "gateway/api/credential_forms.py" in found
    assert [name for name in sorted(found - examples) if not name.startswith(tuple(mentioned))] == []


def test_the_chain_on_the_page_is_that_of_proxied_calls() -> None:
    """The page lists the links in the order of the chain. Each link has the name of its function."""
    from gateway.middleware.surfaces import PROXY

    (step,) = re.findall(r"\(`middleware/facts\.py`\):(.*?)^4\. ", PAGE, re.MULTILINE | re.DOTALL)
    on_page = re.findall(r"(?:\A|·)\s*`(\w+)`", step)
    assert on_page == [link.__name__ for link in PROXY]

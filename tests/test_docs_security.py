"""docs/security.md promises nothing that no test stands behind."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()
TEXT, _, _ = PAGE.partition("\n[^")
NOTES = dict(re.findall(r"^\[\^([a-z-]+)\]: `([^`]*)`$", PAGE, re.MULTILINE))
MADE = re.compile(r"^(## (?:Where|What leaves|Who|How|Bounds).*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def promises() -> list[str]:
    """Each item of a list and each row of a table, in the sections that promise."""
    found = []
    for section in MADE.findall(TEXT):
        found += [
            " ".join(item.split()) for item in re.findall(r"^- (.*?)(?=^- |^$|\Z)", section, re.MULTILINE | re.DOTALL)
        ]
        rows = [line for line in section.splitlines() if line.startswith("|")]
        found += rows[2:]
    return found


def test_there_are_promises_in_every_section() -> None:
    assert len(MADE.findall(TEXT)) == 5
    assert len(promises()) > 25


@pytest.mark.parametrize("promise", promises())
def test_a_promise_ends_with_its_tests(promise: str) -> None:
    assert re.search(r"(\[\^[a-z-]+\])+( \|)?$", promise), f"no test stands behind: {promise}"


def asserts(node: ast.AST) -> bool:
    """Whether it is an assert, or waits for an exception."""
    if isinstance(node, ast.With):
        return any(ast.unparse(item.context_expr).startswith("pytest.raises(") for item in node.items)
    return isinstance(node, ast.Assert)


@pytest.mark.parametrize(
    ("code", "does"),
    [
        ("assert x", True),
        ("with pytest.raises(E): x()", True),
        ("with other() as one, pytest.raises(E): x()", True),
        ("x()", False),
        ("with open() as file: file.read()", False),
        ("assert_something()", False),
    ],
)
def test_a_bare_call_asserts_nothing(code: str, does: bool) -> None:
    assert any(map(asserts, ast.walk(ast.parse(code)))) is does


@pytest.mark.parametrize("note", sorted(set(re.findall(r"\[\^([a-z-]+)\]", TEXT))))
def test_the_test_that_is_named_exists(note: str) -> None:
    file, _, name = NOTES[note].partition("::")
    tree = ast.parse((ROOT / file).read_text())
    (test,) = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    assert any(map(asserts, ast.walk(test))), "it asserts nothing itself; what a helper asserts may be taken away there"


def test_no_note_is_left_over() -> None:
    assert set(NOTES) == set(re.findall(r"\[\^([a-z-]+)\]", TEXT))

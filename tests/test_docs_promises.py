"""Every promise in docs/security.md, docs/promises.md and docs/compatibility.md has a test."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parent.parent


class Page:
    """A page of promises.

    The parameter `sections`: how the headings of sections with promises begin, as alternatives of a regular expression.
    `footnotes`: test by footnote. `cited`: the footnotes that the text uses.
    """

    def __init__(self, name: str, sections: str) -> None:
        content = (ROOT / "docs" / name).read_text()
        self.name = name
        self.footnotes = dict(re.findall(r"^\[\^([a-z-]+)\]: `([^`]*)`$", content, re.MULTILINE))
        text, _, _ = content.partition("\n[^")
        self.cited = sorted(set(re.findall(r"\[\^([a-z-]+)\]", text)))
        promising = rf"^(## (?:{sections}).*?)(?=^## |\Z)"
        self.sections: list[str] = re.findall(promising, text, re.MULTILINE | re.DOTALL)

    @property
    def promises(self) -> list[str]:
        """Return each list item and each table row in the sections with promises."""
        found = []
        for section in self.sections:
            found += [
                " ".join(item.split())
                for item in re.findall(r"^- (.*?)(?=^- |^$|\Z)", section, re.MULTILINE | re.DOTALL)
            ]
            rows = [line for line in section.splitlines() if line.startswith("|")]
            found += rows[2:]
        return found


SECURITY: Final = Page("security.md", "Where|What leaves|What an agent|Who|How|Limits")
PROMISES: Final = Page("promises.md", "Under which|In every")
COMPATIBILITY: Final = Page("compatibility.md", "What works|Differences")
PAGES: Final = (SECURITY, PROMISES, COMPATIBILITY)


def test_there_are_promises_in_every_section() -> None:
    assert [len(page.sections) for page in PAGES] == [7, 2, 2]
    assert len(SECURITY.promises) > 25
    assert len(PROMISES.promises) > 15
    assert len(COMPATIBILITY.promises) > 25


def test_a_promise_ends_with_its_tests() -> None:
    promises = [promise for page in PAGES for promise in page.promises]
    assert [text for text in promises if not re.search(r"(\[\^[a-z-]+\])+( \|)?$", text)] == []


def asserts(node: ast.AST) -> bool:
    """Return whether the node is an `assert` or a `with pytest.raises(…)`."""
    if isinstance(node, ast.With):
        return any(ast.unparse(item.context_expr).startswith("pytest.raises(") for item in node.items)
    return isinstance(node, ast.Assert)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert x", True),
        ("with pytest.raises(E): x()", True),
        ("with other() as one, pytest.raises(E): x()", True),
        ("x()", False),
        ("with open() as file: file.read()", False),
        ("assert_something()", False),
    ],
)
def test_only_an_assert_or_an_expected_exception_counts_as_an_assertion(code: str, expected: bool) -> None:
    assert any(map(asserts, ast.walk(ast.parse(code)))) is expected


def assertions_in(file: str) -> dict[str, list[bool]]:
    """Return whether each function of the file has an assertion of its own, by name."""
    found: dict[str, list[bool]] = {}
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(any(map(asserts, ast.walk(node))))
    return found


def test_the_test_of_a_promise_exists_and_asserts() -> None:
    """An assertion in a helper could be removed unnoticed."""
    cited = {page.footnotes[note] for page in PAGES for note in page.cited}
    found = {file: assertions_in(file) for file in {place.partition("::")[0] for place in cited}}
    wrong = [place for place in cited if found[place.partition("::")[0]].get(place.partition("::")[2]) != [True]]
    assert sorted(wrong) == []


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_footnote_is_used(page: Page) -> None:
    assert sorted(page.footnotes) == page.cited

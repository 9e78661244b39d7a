"""Documentation is part of the product: gaps in it fail here."""

import re
from pathlib import Path
from typing import get_args

import yaml

from gateway.app.routes import ROUTES
from gateway.auth import modes
from gateway.errors import Code

DOCS = Path(__file__).parent.parent / "docs"


HTTP_API = (DOCS / "http-api.md").read_text()


def test_every_error_code_is_documented() -> None:
    assert [code for code in get_args(Code) if f"| `{code}` |" not in HTTP_API] == []


def test_every_auth_mode_is_documented() -> None:
    assert [mode for mode in modes() if f"| `{mode}` |" not in HTTP_API] == []


def test_every_route_is_documented() -> None:
    paths = {path.partition("{")[0].rstrip("/") for _, path, _ in ROUTES}
    assert sorted(path for path in paths if path not in HTTP_API) == []


def test_every_command_is_in_the_readme_or_the_docs() -> None:
    from gateway.cli import COMMANDS

    text = "\n".join(path.read_text() for path in [DOCS.parent / "README.md", *DOCS.glob("*.md")])
    assert [name for name in COMMANDS if f"gateway {name}" not in text] == []


def examples(language: str) -> list[tuple[str, str]]:
    """Return the name of the page and the text of each example in this language."""
    return [
        (path.name, text)
        for path in sorted(DOCS.glob("*.md"))
        for text in re.findall(rf"^ *```{language}\n(.*?)^ *```$", path.read_text(), re.DOTALL | re.MULTILINE)
    ]


def test_examples_have_one_command_in_a_line() -> None:
    """A program that wraps the lines of a page also joins the lines of an example."""
    from gateway.cli import COMMANDS

    in_comment = re.compile(rf"\s# .*\b(gateway ({'|'.join(COMMANDS)})|curl) ")
    for page, text in examples("sh"):
        for line in text.replace("\\\n", "").splitlines():
            assert re.match(r"\s|[a-z./#]|$", line), (page, line)
            assert not in_comment.search(line), (page, line)


def test_examples_of_configurations_and_entries_are_yaml() -> None:
    for page, text in examples("yaml"):
        assert isinstance(yaml.safe_load(text), dict), (page, text)


def test_every_script_is_in_the_docs() -> None:
    from gateway.integrations.declared import SCRIPTS

    text = (DOCS / "catalog.md").read_text()
    assert [name for name in SCRIPTS if f"`{name}`" not in text] == []


README = (DOCS.parent / "README.md").read_text()


def test_the_readme_is_short() -> None:
    assert 60 <= len(README.splitlines()) <= 80


def test_the_readme_counts_the_catalog_as_its_page_does() -> None:
    total = re.search(r"^\| all \| (.*) \|$", (DOCS / "catalog.md").read_text(), re.MULTILINE)
    assert total is not None
    entries = int(total[1].split(" | ")[0])
    text = " ".join(README.split())
    assert f"How far you can trust the catalog.** It has {entries:,} providers." in text


def test_the_readme_counts_auth_modes_and_languages() -> None:
    from gateway.pages.frame import LANGUAGES

    assert len(LANGUAGES) == 5
    assert "in five languages" in README
    assert "tokens](docs/security.md#where-secrets-are-stored)" in README
    assert f"{len(modes())} auth modes" in README


def test_the_readme_has_the_figures_of_the_performance_page() -> None:
    page = (DOCS / "performance.md").read_text()
    get = re.search(r"^\| the gateway's CPU, relative to the proxy \| \S+ \| \S+ \| (\S+) \|", page, re.MULTILINE)
    mix = re.search(r"^\| mix \|(?: \d+ \|){5} (\S+) \|", page, re.MULTILINE)
    assert get is not None
    assert mix is not None
    assert f"{get[1]} times as much for a GET, {mix[1]} times for a mix" in README


def test_the_index_has_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if f"({page}" not in index] == []
    assert "(docs/README.md)" in README

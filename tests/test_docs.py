"""Documentation is part of the product: what it leaves out fails here."""

from pathlib import Path
from typing import get_args

import pytest

from gateway.app.routes import ROUTES
from gateway.auth import modes
from gateway.errors import Code

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("code", get_args(Code))
def test_every_error_code_is_documented(code: str) -> None:
    assert f"| `{code}` |" in (DOCS / "http-api.md").read_text()


@pytest.mark.parametrize("mode", modes())
def test_every_auth_mode_is_documented(mode: str) -> None:
    assert f"| `{mode}` |" in (DOCS / "http-api.md").read_text()


@pytest.mark.parametrize("path", sorted({path.partition("{")[0].rstrip("/") for _, path, _ in ROUTES}))
def test_every_route_is_documented(path: str) -> None:
    assert f"{path}" in (DOCS / "http-api.md").read_text()


def test_every_command_is_reported_in_the_readme_or_the_docs() -> None:
    from gateway.cli import COMMANDS

    text = "\n".join(path.read_text() for path in [DOCS.parent / "README.md", *DOCS.glob("*.md")])
    assert [name for name in COMMANDS if f"gateway {name}" not in text] == []


def test_every_script_is_reported_in_the_docs() -> None:
    from gateway.integrations.declared import SCRIPTS

    text = (DOCS / "catalog.md").read_text()
    assert [name for name in SCRIPTS if f"`{name}`" not in text] == []

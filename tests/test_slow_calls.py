"""Calls of libraries whose time grows with the square of what a stranger sends, and what takes their place."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SLOW = {"content_type", "charset", "post", "text", "json", "multipart"}
"""Of a request of aiohttp: they parse Content-Type with `email.parser`. `gateway.http.headers` and
`gateway.middleware.key_limits` do it in linear time."""


def uses(source: str) -> list[int]:
    """The lines that use one of them."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr in SLOW
        and isinstance(node.value, ast.Name)
        and node.value.id in {"request", "_request"}
    ]


@pytest.mark.parametrize("package", ["gateway", "middleware"])
def test_no_request_is_parsed_by_what_is_slow(package: str) -> None:
    paths = [path for path in (ROOT / package).rglob("*.py") if "sandbox" not in path.parts]  # which a demo runs alone
    assert [f"{path}:{line}" for path in paths for line in uses(path.read_text())] == []


def test_a_use_is_found() -> None:
    assert uses("async def f(request):\n    return await request.post()") == [2]

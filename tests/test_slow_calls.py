"""Library calls that take long for untrusted input, and their replacements."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SLOW = {"content_type", "charset", "post", "text", "json", "multipart", "cookies"}
"""Attributes of aiohttp's requests that parse Content-Type with `email.parser`, in quadratic time, or all cookies.
`gateway.http.headers`, `gateway.middleware.key_limits` and `gateway.pages.connect_cookie` do it faster."""


def uses(source: str) -> list[int]:
    """Return the lines that use one of the `SLOW` attributes of a request."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr in SLOW
        and isinstance(node.value, ast.Name)
        and node.value.id in {"request", "_request"}
    ]


@pytest.mark.parametrize("package", ["gateway", "middleware"])
def test_no_request_is_parsed_by_a_slow_function(package: str) -> None:
    paths = [path for path in (ROOT / package).rglob("*.py") if "sandbox" not in path.parts]  # only a demo runs it
    assert [f"{path}:{line}" for path in paths for line in uses(path.read_text())] == []


def test_use_of_a_slow_function_is_found() -> None:
    assert uses("async def f(request):\n    return await request.post()") == [2]

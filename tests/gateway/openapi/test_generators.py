"""The OpenAPI document has what client generators need. Installed generators accept it."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.openapi.openapi_document import ALL_METHODS, document, status_codes
from gateway.openapi.operations import OPERATIONS
from tests.journeys.connect_page.browser import npm


@cache
def description() -> dict[str, Any]:
    """Return the document. Created on first use, since it takes a quarter of a second in each process."""
    return document("https://gateway.example")


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in `part`."""
    if isinstance(part, dict):
        yield part
    for below in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from schemas(below)


def patterns() -> list[str]:
    return sorted({schema["pattern"] for schema in schemas(description()) if isinstance(schema.get("pattern"), str)})


# ECMA-262, 22.2.1 with the flag `u`: other backslash sequences, and syntax that only Python has, are syntax errors.
ESCAPE = re.compile(r"""\\(?:[\^$\\.*+?()\[\]{}|/dDsSwWbBfnrtv0]|[1-9]|-|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|p\{\w+\})""")
OUTSIDE = re.compile(r"(?:[^\\\[\](){}*+?]|\((?:\?[:=!]|\?<[=!])?|\)|(?<![(|^])(?:[*+?]|\{\d+(?:,\d*)?\})\??(?![*+]))")
CLASS = re.compile(r"\[\^?(?:[^\\\]]|" + ESCAPE.pattern + r")*\]")


def legal_in_ecma_262(pattern: str) -> bool:
    """Return whether the pattern is legal.

    May return False for an unusual legal pattern, but never returns True for one that `new RegExp(pattern, "u")`
    rejects.
    """
    at = 0
    while at < len(pattern):
        found = next(filter(None, (kind.match(pattern, at) for kind in (CLASS, ESCAPE, OUTSIDE))), None)
        if found is None or (found[0] == r"\-"):  # legal in a class only
            return False
        at = found.end()
    return True


@pytest.mark.parametrize(
    ("pattern", "legal"),
    [
        (r"^[a-z]{1,3}\.(?:x|y)?$", True),
        (r"^[^\]\\/-]+$", True),
        (r"^[a\"]$", False),
        (r"\'", False),
        (r"\-", False),
        (r"a{", False),
        (r"]", False),
        (r"(?P<a>b)", False),
        (r"\Ab\Z", False),
        (r"(?i)a", False),
        (r"a*+", False),
    ],
)
def test_legal_patterns_are_distinguished_from_others(pattern: str, legal: bool) -> None:
    assert legal_in_ecma_262(pattern) is legal
    if (node := shutil.which("node")) is not None:
        assert refused_by_node(node, [pattern]) == ([] if legal else [pattern])


def refused_by_node(node: str, patterns: list[str]) -> list[str]:
    """Return the patterns that node refuses."""
    script = (
        "const bad = JSON.parse(process.argv[1]).filter((p) => { try { new RegExp(p, 'u'); } catch { return true; } });"
        "console.log(JSON.stringify(bad));"
    )
    done = subprocess.run([node, "-e", script, json.dumps(patterns)], capture_output=True, text=True, check=True)
    refused: list[str] = json.loads(done.stdout)
    return refused


def test_every_pattern_is_legal_in_ecma_262_with_the_unicode_flag() -> None:
    assert patterns()
    assert [pattern for pattern in patterns() if not legal_in_ecma_262(pattern)] == []


def test_node_compiles_every_pattern() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the Python check has tested the patterns")
    assert refused_by_node(node, patterns()) == []


def test_no_member_has_null_as_its_default() -> None:
    # openapi-typescript assumes that a member with a default is always present.
    assert [schema for schema in schemas(description()) if schema.get("default", ...) is None] == []


def test_errors_share_one_schema_and_each_status_has_one_response_of_a_kind() -> None:
    shared = description()["components"]["responses"]
    statuses = {status for operation in OPERATIONS for status in status_codes(operation)}
    kinds = {name: re.fullmatch(r"Error(\d{3})(Page|Text)?", name) for name in shared}
    assert all(kinds.values())
    assert {int(kind[1]) for kind in kinds.values() if kind} == statuses
    for name, response in shared.items():
        model = "ErrorText" if name.endswith("Text") else "Error"
        assert response["content"]["application/json"] == {"schema": {"$ref": f"#/components/schemas/{model}"}}
        assert set(response["content"]) <= {"application/json", "text/html"}


def test_every_operation_says_which_codes_it_returns() -> None:
    for operation in OPERATIONS:
        responses = description()["paths"][operation.path][
            "get" if operation.method == "*" else operation.method.lower()
        ]["responses"]
        for status, codes in status_codes(operation).items():
            result = responses["default" if operation.method == "*" else str(status)]["description"]
            assert [code for code in codes if f"`{code}`" not in result] == [], (
                operation.method,
                operation.path,
                status,
            )


def test_a_proxied_call_may_return_anything_with_any_status() -> None:
    proxied = [operation for operation in OPERATIONS if operation.method == "*"]
    assert proxied
    for item in proxied:
        for method in ALL_METHODS:
            responses = description()["paths"][item.path][method]["responses"]
            # The provider's statuses are arbitrary, so no schema applies.
            assert sorted(responses) == ["2XX", "default"]
            for response in responses.values():
                assert response["content"]["*/*"] == {}
                # openapi-python-client does not know */*, but reads this as bytes.
                assert response["content"]["application/octet-stream"]["schema"] == {
                    "type": "string",
                    "format": "binary",
                }
            assert "Gateway-Error" in responses["default"]["headers"]


USE = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";
const client = createClient<paths>({ baseUrl: "https://gateway.example" });
export async function link(): Promise<string | undefined> {
  const made = await client.POST("/connect/sessions", { body: { end_user: { id: "u" }, allowed_integrations: ["jira"] } });
  if (made.error !== undefined) throw new Error(made.error.error.message);
  return made.data.data.connect_link;
}
export async function imported(): Promise<string> {
  const made = await client.POST("/connections", {
    body: { provider_config_key: "openai", connection_id: "u", credentials: { type: "API_KEY", apiKey: "k" } },
  });
  if (made.error !== undefined) throw new Error(made.error.error.code);
  return made.data.connection_id;
}
export async function me(): Promise<unknown> {
  const header = { "Provider-Config-Key": "jira", "Connection-Id": "u" };
  return (await client.GET("/proxy/{path}", { params: { path: { path: "myself" }, header }, parseAs: "json" })).data;
}
"""


def test_a_client_in_typescript_type_checks(tmp_path: Path) -> None:
    modules = npm("openapi-typescript@7", "openapi-fetch", "typescript@5")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "openapi.json").write_text(json.dumps(description()))
    (tmp_path / "use.ts").write_text(USE)
    tools = modules / ".bin"
    for command in (
        [tools / "openapi-typescript", "openapi.json", "-o", "schema.d.ts"],
        [
            tools / "tsc",
            "--noEmit",
            "--strict",
            "--target",
            "es2022",
            "--module",
            "esnext",
            "--moduleResolution",
            "bundler",
            "use.ts",
        ],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

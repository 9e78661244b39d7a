"""Private names of libraries that the gateway uses, and which any release may remove.

pyproject.toml limits the versions of these libraries. When a limit is raised, these tests show what the release
removed.
"""

import ast
import re
import sqlite3
import ssl
import tomllib
from asyncio.streams import FlowControlMixin
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import aiohttp.web_protocol
import aiosqlite
import pytest
from aiohttp import web
from aiohttp.http_writer import StreamWriter
from aiohttp.test_utils import make_mocked_request
from packaging.requirements import Requirement
from packaging.version import Version
from sqlalchemy import Row

TOP: Final = Path(__file__).parents[2]
HANDLER: Final = aiohttp.web_protocol.RequestHandler
# The owner of each name, and the names that are read, called, set or overridden.
USED: Final[Mapping[str, tuple[Any, frozenset[str]]]] = {
    "aiohttp's RequestHandler": (
        lambda: HANDLER,
        frozenset({
            "_buffer_paused", "_close", "_current_request", "_force_close", "_keepalive_timeout", "_lingering_time", "_loop",
            "_make_error_handler", "_manager", "_max_msg_queue_size", "_messages", "_msg_queue_resume_size",
            "_next_keepalive_close_time", "_parser", "_paused", "_payload_parser", "_process_keepalive", "_reading_paused",
            "_request_count", "_resume_transport_reading", "_task_handler", "_upgraded", "_waiter",
        }),
    ),
    "aiohttp.web_protocol": (lambda: aiohttp.web_protocol, frozenset({"_ErrInfo"})),
    "aiohttp's Request": (lambda: make_mocked_request("GET", "/"), frozenset({"_cache", "_match_info"})),
    "aiohttp's StreamResponse": (web.StreamResponse, frozenset({"_payload_writer", "_req"})),
    "aiohttp's StreamWriter": (
        lambda: StreamWriter(cast(Any, None), cast(Any, None)),
        frozenset({"_headers_buf"}),
    ),
    "aiohttp's Application": (web.Application, frozenset({"_state"})),
    "aiosqlite's Connection": (
        lambda: aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64),
        frozenset({"_conn", "_execute", "_thread"}),
    ),
    "asyncio's FlowControlMixin": (lambda: FlowControlMixin, frozenset({"_drain_helper"})),
    "ssl's SSLObject": (
        lambda: ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a.example"),
        frozenset({"_create", "_sslobj"}),
    ),
    "SQLAlchemy's Row": (lambda: Row, frozenset({"_mapping"})),
}  # fmt: skip
DOCUMENTED: Final = frozenset({"_asdict", "_exit"})  # of named tuples, and os._exit
BOUNDED: Final = {"aiohttp": "3.15", "aiosqlite": "0.23", "SQLAlchemy": "2.2"}
# The lowest version without a known vulnerability that concerns the gateway, and the vulnerability that it fixes.
LOWEST: Final = {"aiohttp": ("3.14.3", "CVE-2026-69244: its C parser reads beyond the buffer of a malformed response")}


@pytest.mark.parametrize("place", USED)
def test_used_private_names_exist(place: str) -> None:
    make, names = USED[place]
    there = make()
    kinds = there.__mro__ if isinstance(there, type) else type(there).__mro__
    has = {*dir(there), *(name for kind in kinds for name in getattr(kind, "__slots__", ()))}
    assert sorted(names - has) == []


# part of a module's name, or one of the imported names, which can be on several lines in parentheses
PRIVATE_IMPORT: Final = r"(?m)^\s*from (\S*\b_|\S+ import [^#\n(]*\b_|\S+ import \([^)]*\b_)"


def sources(having: str = "") -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules that have a text which matches the regular expression `having`."""
    for package in ("gateway", "middleware"):
        for path in (TOP / package).rglob("*.py"):
            source = path.read_text()
            if re.search(having, source):
                yield path, ast.parse(source)


def test_no_other_private_name_of_others_is_used() -> None:
    in_server: set[str] = set()
    used: dict[str, Path] = {}
    ours: set[str] = set()
    for path, tree in sources():
        is_server = path.is_relative_to(TOP / "gateway" / "server")
        for node in ast.walk(tree):
            if is_server and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Attribute):
                in_server.add(node.attr if isinstance(node, ast.Attribute) else node.name)
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                used[node.attr] = path
                if isinstance(node.ctx, ast.Store):
                    ours.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
    known = frozenset().union(DOCUMENTED, *(names for _, names in USED.values()))
    assert {name: str(path) for name, path in used.items() if name not in ours | known} == {}
    # The names that subclasses of RequestHandler set or override must be listed, if RequestHandler has them.
    has = {*dir(HANDLER), *(name for kind in HANDLER.__mro__ for name in getattr(kind, "__slots__", ()))}
    private = {name for name in in_server & has if name.startswith("_") and not name.startswith("__")}
    assert private <= USED["aiohttp's RequestHandler"][1]


def test_private_modules_are_imported_only_from_packages_with_an_upper_version_bound() -> None:
    found = {
        node.module.split(".")[0]
        for _, tree in sources(PRIVATE_IMPORT)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.level == 0
        and any(part.startswith("_") for part in (*node.module.split(".")[1:], *(name.name for name in node.names)))
    } - {"gateway", "middleware"}
    assert found == {"aiohttp"}


def version_bounds() -> dict[str, set[str]]:
    """Return the version bounds of each dependency in pyproject.toml, such as ``>=3.14.3``."""
    text = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]
    return {item.name: {str(bound) for bound in item.specifier} for item in map(Requirement, text)}


def test_packages_whose_internals_are_used_have_an_upper_bound_on_minor_releases() -> None:
    for name, below in BOUNDED.items():
        assert f"<{below}" in version_bounds()[name], name


def test_vulnerable_versions_of_packages_are_not_allowed() -> None:
    for name, (version, vulnerability) in LOWEST.items():
        (bound,) = [bound for bound in version_bounds()[name] if bound.startswith(">=")]
        assert Version(bound.removeprefix(">=")) >= Version(version), vulnerability

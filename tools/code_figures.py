"""``python -m tools.code_figures``: figures on the structure of the code, and on the code that four paths run.

The tool counts files, lines, repeated names, and modules with one importer. With ``--paths``, it lists the files and
functions of gateway/ and middleware/ that run for a proxied request, a refresh, a connect flow and a reload.

Each path runs twice in a real gateway with the tests' fake provider: first to load lazy imports, then with
`sys.setprofile`. Not counted are tasks and threads that started earlier, and the code of imports. The refresh runs in
the worker's own process, without a parent.
"""

import argparse
import ast
import asyncio
import contextlib
import io
import logging
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("gateway", "middleware")


# ── Files, names and imports.


def modules() -> dict[str, Path]:
    """Return module ▸ file. `gateway/middleware` is a link to `middleware/`, so each file is counted only once."""
    found = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if (ROOT / "gateway/middleware") not in file.parents:
                name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                found["gateway." + name if folder == "middleware" else name] = file
    return found


def code_lines(file: Path) -> int:
    """Return the number of lines that are neither blank nor comments nor docstrings."""
    text = file.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines & {at for at, line in enumerate(text.splitlines(), 1) if line.strip()})


def importers(found: dict[str, Path]) -> dict[str, set[str]]:
    """Return module ▸ the modules that import it, at any place in their code."""
    by: dict[str, set[str]] = defaultdict(set)
    for name, file in found.items():
        for node in ast.walk(ast.parse(file.read_text())):
            named: list[str] = []
            if isinstance(node, ast.Import):
                named = [entry.name for entry in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named = [f"{node.module}.{entry.name}" for entry in node.names]
            for item in named:
                target = item if item in found else item.rpartition(".")[0]
                if target in found and target != name:
                    by[target].add(name)
    return by


def share(sorted_values: list[int], part: float) -> int:
    return sorted_values[min(int(len(sorted_values) * part), len(sorted_values) - 1)]


def figures() -> Iterator[tuple[str, object]]:
    found = modules()
    lengths = sorted(len(file.read_text().splitlines()) for file in found.values())
    trees = {name: ast.parse(file.read_text()) for name, file in found.items()}
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    files = Counter(file.name for file in found.values() if not file.name.startswith("__"))
    functions = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    by = importers(found)
    yield "files", len(found)
    yield "lines", sum(lengths)
    yield "lines of code", sum(code_lines(file) for file in found.values())
    yield "file length: median, p95, longest", (share(lengths, 0.5), share(lengths, 0.95), lengths[-1])
    yield (
        "function length: median, p95, longest, above 60",
        (
            *(share(functions, 0.5), share(functions, 0.95), functions[-1]),
            sum(length > 60 for length in functions),
        ),
    )
    yield "packages", sum(file.name == "__init__.py" for file in found.values())
    yield "modules with one importer", sum(len(by[name]) == 1 for name in found if not name.endswith("__main__"))
    yield "class names of several classes", sorted(name for name, times in classes.items() if times > 1)
    yield "file names that repeat", sorted(name for name, times in files.items() if times > 1)


# ── The code that a path runs.


class CalledFunctions:
    """Records the gateway's functions that ran. Tasks that already existed are ignored."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self._before = asyncio.all_tasks() - {asyncio.current_task()}
        self._ours = (str(ROOT / "gateway"), str(ROOT / "middleware"))

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self.functions or not code.co_filename.startswith(self._ours):
            return
        if code.co_name == "<module>" or self._runs_in_background():
            return
        self.functions.add(code)

    def _runs_in_background(self) -> bool:
        try:
            return asyncio.current_task() in self._before
        except RuntimeError:  # a thread that started later
            return False

    def files(self) -> dict[str, list[str]]:
        by: dict[str, set[str]] = defaultdict(set)
        for code in self.functions:
            file = Path(code.co_filename).resolve().relative_to(ROOT)
            by[str(file)].add(code.co_qualname if sys.version_info >= (3, 11) else code.co_name)
        return {file: sorted(names) for file, names in sorted(by.items())}


async def trace_calls(path: Callable[[], Awaitable[object]]) -> CalledFunctions:
    await path()  # the first run triggers lazy imports
    await asyncio.sleep(0.05)
    touched = CalledFunctions()
    # so that the threads of the pool start under the profiler
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    threading.setprofile(touched)
    sys.setprofile(touched)
    try:
        await path()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return touched


async def paths(folder: Path) -> dict[str, CalledFunctions]:
    import aiohttp

    from gateway.app.reload import reload
    from gateway.records.connection import ConnectionRef
    from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
    from tests.fakes.pages import BROWSER, consent_url
    from tests.fakes.tracker import Tracker

    tracker = Tracker()
    server = await tracker.serve()
    tracker.url = f"http://127.0.0.1:{server.port}"
    write_entry(folder, "tracker", tracker_entry(tracker.url))
    gateway = RunningGateway(folder, document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]), fast_path=False)
    await gateway.start()
    (folder / "gateway.yaml").write_text(_yaml(gateway.document))
    await gateway.import_connection(tracker.grant(), connection_config={"cloudId": "cloud-1"})
    ref = ConnectionRef("dev", "tracker", "c1")
    runtime = gateway.runtime

    async def call() -> None:
        headers = {**gateway.headers, "Provider-Config-Key": "tracker", "Connection-Id": "c1"}
        async with aiohttp.ClientSession() as http, http.get(f"{gateway.url}/proxy/x", headers=headers) as response:
            assert response.status == 200, await response.text()
            await response.read()

    async def refresh() -> None:
        _, fault = await runtime.live.fresh_row(ref, force=True)
        assert fault is None

    async def connect() -> None:
        asked = {"end_user": {"id": "u"}, "allowed_integrations": ["tracker"]}
        session = await gateway.json("POST", "/connect/sessions", json=asked, expect=201)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            async with http.get(session["data"]["connect_link"], headers=BROWSER) as page:
                url = str(page.url)
            consent = await consent_url(http, url, {"params[cloudId]": "cloud-1"})
            async with http.get(consent, headers=BROWSER) as response:
                html = await response.text()
                assert "is connected" in html, html

    async def call_again() -> None:
        assert await reload(gateway.app, folder / "gateway.yaml")

    found = {}
    for name, path in (("proxied", call), ("refresh", refresh), ("connect", connect), ("reload", call_again)):
        found[name] = await trace_calls(path)
    await gateway.stop()
    await server.close()
    return found


def _yaml(value: dict[str, Any]) -> str:
    import yaml

    return yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False)


def main() -> None:
    given = argparse.ArgumentParser(description="Figures on the structure of the code.")
    given.add_argument("--paths", action="store_true", help="trace four paths too")
    given.add_argument("--files", action="store_true", help="with the files and functions of each path")
    asked = given.parse_args()
    for what, value in figures():
        print(f"{what}: {value}")
    if not asked.paths:
        return
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        found = asyncio.run(paths(Path(folder)))
    for name, touched in found.items():
        files = touched.files()
        print(f"{name}: {len(files)} files, {len(touched.functions)} functions")
        if asked.files:
            for file, functions in files.items():
                print(f"    {file}: {', '.join(functions)}")


if __name__ == "__main__":
    main()

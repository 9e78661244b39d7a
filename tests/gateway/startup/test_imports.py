"""A worker does not import parts of libraries that it never uses."""

import subprocess
import sys
from pathlib import Path

import pytest

import gateway
from tests.fakes.gateways import ENCRYPTION_KEY

START = "from gateway.startup.imports import skip_unused_modules; skip_unused_modules(); "
WEB = (
    "from gateway.startup.imports import load_small_web, skip_client_modules; skip_client_modules(); load_small_web(); "
)


def output_of_code(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


UNUSED = [
    "aiohttp.client",
    "aiohttp.connector",
    "aiohttp.cookiejar",
    "aiohttp.web_fileresponse",
    "alembic",
    "argparse",
    "click",
    "cryptography.x509",
    "difflib",
    "email._header_value_parser",
    "gateway.console.view_table",
    "gateway.mcp.mcp_endpoint",
    "html.entities",
    "http.client",
    "jmespath",
    "joserfc",
    "oauthlib",
    "rich",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "urllib.request",
]
SERVING = """
import sys
started_with = set(sys.modules)  # a site's start-up files, coverage's for example, may load some
from gateway.startup.imports import skip_unused_modules
import gateway.config
skip_unused_modules()
import asyncio, gateway.worker, gateway.server.serving_worker
from gateway.app.compose import create_app
from aiohttp import web

async def main():
    for file in sys.argv[1:3]:
        runner = web.AppRunner(create_app(file))
        await runner.setup()
        print([name for name in sys.argv[3:] if name in sys.modules.keys() - started_with])
        await runner.cleanup()

asyncio.run(main())
"""


def test_idle_gateway_has_loaded_no_unused_module(tmp_path: Path) -> None:
    """First without the console, then with it."""
    files = []
    for console in ("false", "true"):
        files.append(str(tmp_path / f"console-{console}.yaml"))
        Path(files[-1]).write_text(
            f"console: {{enabled: {console}}}\n"
            f'store: {{url: "sqlite:///{tmp_path}/gateway.db", encryption_keys: ["{ENCRYPTION_KEY}"]}}\n'
            'environments: {dev: {secret_keys: ["gwdev_0123456789abcdef0123456789abcdef"]}}\n'
        )
    command = [sys.executable, "-c", SERVING, *files]
    ran = subprocess.run([*command, *UNUSED], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[]\n[]\n", "")


INIT = """
import sys
from gateway.__main__ import main
sys.argv = ["gateway", "init", "--dir", sys.argv[1]]
try:
    main()
finally:
    print([name for name in ("aiohttp", "pydantic", "rich", "structlog") if name in sys.modules], file=sys.stderr)
"""


def test_init_loads_no_large_library(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INIT, str(tmp_path / "new")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "[]\n")


def test_worker_that_replaces_another_loads_no_configuration_reader() -> None:
    code = "import sys, gateway.server.serving_worker; print('gateway.config.load_config' in sys.modules)"
    assert output_of_code(START + code) == "False"


WATCHING = """
import asyncio, sys
from contextlib import aclosing
from pathlib import Path
from gateway.app.catalog_watch import _wait_for_changes

async def main():
    async with aclosing(_wait_for_changes([Path(sys.argv[1])])) as changes:
        await anext(changes)
        Path(sys.argv[1], "new.yaml").touch()
        await anext(changes)

asyncio.run(main())
print([name for name in ("anyio.abc", "anyio.to_thread", "anyio._backends._asyncio") if name in sys.modules])
"""


def test_watching_folders_loads_no_second_event_library(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WATCHING, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


STORE = """
import asyncio, sys
from gateway.store import open_store
from gateway.vault import Keyring

async def main():
    keyring = Keyring([bytes.fromhex("8fa3aab2faa9b79e0a0398da5b5abd0780142442a5be80b9a64608d718cb1fcd")])
    store = await open_store(sys.argv[1], keyring, environments={"dev"})
    await store.changes.version()
    await store.close()

asyncio.run(main())
print([name for name in sys.argv[2:] if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("kind", "unused"),
    [
        (
            "sqlite",
            [
                "asyncpg",
                "sqlalchemy.dialects.postgresql",
                "gateway.store.postgres.postgres_backend",
                "sqlalchemy.orm",
                "alembic",
            ],
        ),
        ("postgresql", ["aiosqlite", "gateway.store.sqlite.sqlite_backend", "sqlalchemy.orm", "alembic"]),
    ],
)
def test_a_worker_loads_only_the_driver_of_its_store(
    kind: str, unused: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/gateway.db" if kind == "sqlite" else request.getfixturevalue("database")
    command = [sys.executable, "-c", START + STORE, url, *unused]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_an_import_of_other_names_loads_the_whole_package() -> None:
    asked = "from sqlalchemy.ext.asyncio import AsyncEngine; from sqlalchemy.ext.asyncio import AsyncSession, engine; "
    assert (
        output_of_code(f"{START}{asked}print(AsyncSession.__name__, engine.AsyncEngine is AsyncEngine)")
        == "AsyncSession True"
    )


def test_package_lacks_a_name_that_does_not_exist() -> None:
    code = "import sqlalchemy.ext.asyncio as package; print(hasattr(package, 'no_such_thing'))"
    assert output_of_code(START + code) == "False"


@pytest.mark.parametrize(
    "use",
    [
        "import aiohttp; aiohttp.ClientTimeout(total=1); print(aiohttp.ClientSession.__module__)",
        "from aiohttp import ClientError, ClientSession as C, DummyCookieJar; print(C.__module__)",
        "from aiohttp import client; print(client.ClientSession.__module__)",
    ],
)
def test_the_client_session_can_be_imported_in_every_form(use: str) -> None:
    assert output_of_code(WEB + use) == "aiohttp.client"


def test_content_type_is_parsed_and_a_file_response_is_built(tmp_path: Path) -> None:
    (tmp_path / "response.json").write_text("{}")
    use = (
        "from aiohttp import web; from aiohttp.helpers import parse_content_type; "
        f"file = web.FileResponse({str(tmp_path / 'response.json')!r}); "
        "print(parse_content_type('Text/HTML; charset=\"Latin-1\"'), type(file).__module__, isinstance(file, web.FileResponse))"
    )
    expected = "('text/html', mappingproxy({'charset': 'Latin-1'})) aiohttp.web_fileresponse True"
    assert output_of_code(WEB + use) == expected


def test_html_entities_can_be_unescaped() -> None:
    assert output_of_code(f"{WEB}import html; print(html.unescape('&auml;&lt;&notit;'))") == "ä<¬it;"


def test_rich_can_be_loaded_afterwards() -> None:
    assert output_of_code(f"{WEB}import rich; print(rich.__name__)") == "rich"


def test_only_workers_and_commands_skip_unused_modules() -> None:
    ours = Path(gateway.__file__).parent
    callers = [path for path in ours.rglob("*.py") if "skip_unused_modules()" in path.read_text()]
    assert {path.relative_to(ours).as_posix() for path in callers} == {
        "startup/imports.py",
        "worker.py",
        "cli/run_command.py",
    }

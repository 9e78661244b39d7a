"""The gateway beside a host application that has its own `middleware` package or `gateway` module (ADR 45)."""

import asyncio
import configparser
import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.gateways import document
from tests.fakes.processes import ServingProcess

ROOT: Final = Path(__file__).parents[2]
HOST_MIDDLEWARE: Final = """
from aiohttp import web

@web.middleware
async def stamp(request, handler):
    response = await handler(request)
    response.headers["X-Host"] = "host"
    return response
"""
HOST_APPLICATION: Final = """
import asyncio, json, sys
import gateway
import middleware
from aiohttp import ClientSession, web
from middleware.chain import MINE

async def main():
    app = web.Application(middlewares=[middleware.stamp])
    key = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="
    gateway.setup(app, {"store": {"url": f"sqlite:///{sys.argv[1]}/gateway.db", "encryption_keys": [key]}})
    runner = gateway.runner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    found = {"gateway": gateway.__file__, "links": sys.modules["gateway.middleware"].__file__, "own": middleware.__file__}
    async with ClientSession() as session:
        for path in ("/health", "/providers"):
            async with session.get(f"http://{host}:{port}{path}") as response:
                found[path] = [response.status, response.headers.get("X-Host")]
    await runner.cleanup()
    print(json.dumps(found))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_installs_no_top_level_package_but_gateway(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"gateway"}
    assert "gateway/middleware/surfaces.py" in names


def test_wheel_installs_the_command_under_its_own_name_too(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (file,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
    points = configparser.ConfigParser()
    points.read_string(archive.read(file).decode())
    assert dict(points["console_scripts"]) == dict.fromkeys(("gateway", "integration-gateway"), "gateway.__main__:main")


def test_a_host_application_keeps_its_own_middleware_package(wheel: Path, tmp_path: Path) -> None:
    site, host = tmp_path / "site", tmp_path / "host"
    zipfile.ZipFile(wheel).extractall(site)
    (host / "middleware").mkdir(parents=True)
    (host / "middleware" / "__init__.py").write_text(HOST_MIDDLEWARE)
    (host / "middleware" / "chain.py").write_text("MINE = True\n")
    (host / "main.py").write_text(HOST_APPLICATION)
    command = [sys.executable, str(host / "main.py"), str(tmp_path)]
    ran = subprocess.run(
        command, env={"PYTHONPATH": str(site)}, cwd=host, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {
        "gateway": str(site / "gateway" / "__init__.py"),
        "links": str(site / "gateway" / "middleware" / "__init__.py"),
        "own": str(host / "middleware" / "__init__.py"),
        "/health": [200, "host"],
        "/providers": [401, "host"],
    }


async def test_gateway_serve_does_not_import_the_hosts_own_gateway_module(tmp_path: Path) -> None:
    """Started in the host's folder, neither the parent nor a worker imports the host's module of that name."""
    (tmp_path / "gateway.py").write_text("raise SystemExit('the host has a gateway, too')\n")
    settings = document([])
    settings["environments"]["dev"]["integrations"] = {}
    del settings["catalog"]
    (tmp_path / "gateway.yaml").write_text(json.dumps(settings))
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).parent / "gateway", "serve", "-c", "gateway.yaml"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    serving = ServingProcess(process)
    try:
        await serving.ready()
        serving.signal(signal.SIGTERM)
        assert await serving.ended() == 0
    finally:
        serving.kill_all()
        await process.wait()

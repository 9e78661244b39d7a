"""The Dockerfile: its instructions are checked, and `make image` runs its build steps without a Docker engine.

The steps install everything again, which takes a minute.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from tests.deploy.dockerfile import TOP, Stage, copy, in_context, stages
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port

ONLY_MAKE_IMAGE: Final = pytest.mark.skipif(
    "GATEWAY_IMAGE" not in os.environ, reason="installs everything again; `make image` runs it"
)
BUILD, FINAL = stages()
# a Python with pip, which the project's own environment does not have
PYTHON_WITH_PIP: Final = str(Path(sys.base_prefix) / "bin" / "python3")


def python_of(stage: Stage) -> str:
    found = re.fullmatch(r"python:(3\.\d+)-slim-[a-z]+", stage.base)
    assert found, f"{stage.base} has no version"
    return found[1]


def test_both_stages_start_from_the_same_version_of_a_slim_image() -> None:
    assert BUILD.base == FINAL.base
    assert f"Programming Language :: Python :: {python_of(FINAL)}" in (TOP / "pyproject.toml").read_text()


def test_the_image_installs_wheels_from_the_lock_by_hash() -> None:
    installs = [text for text in BUILD.all("RUN") if " pip install " in text]
    assert "--require-hashes" in installs[0]
    assert "--only-binary :all:" in installs[0]
    assert "-r requirements.lock" in installs[0]
    assert '"requirements-$EXTRA.lock"' in installs[1]
    assert "--require-hashes --only-binary :all:" in installs[1]
    assert "--no-deps" in installs[2]
    assert len(installs) == 3


def test_copied_files_exist() -> None:
    for text in BUILD.all("COPY"):
        *sources, _ = text.split()
        for name in sources:
            assert (TOP / name).exists(), name
            assert in_context(Path(name)), name
    assert [text.split()[0] for text in FINAL.all("COPY")] == ["--from=build"]


@pytest.mark.parametrize(
    "path",
    [
        "my-gateway/encryption_key",
        ".gateway/secret_key",
        "gateway.db",
        ".env",
        ".git/config",
        "deploy/config/gateway.yaml",
    ],
)
def test_secret_files_are_not_sent_to_the_builder(path: str) -> None:
    assert not in_context(Path(path))


@pytest.mark.parametrize("path", ["gateway/__pycache__/app.cpython-311.pyc", "catalog/.compiled.jsonl"])
def test_build_products_are_not_sent_to_the_builder(path: str) -> None:
    assert not in_context(Path(path))
    assert in_context(Path("gateway/cli/init.py"))
    assert in_context(Path("catalog/jira.yaml"))


def test_image_runs_unprivileged_and_has_a_health_check() -> None:
    (user,) = FINAL.all("USER")
    assert all(int(number) >= 10_000 for number in user.split(":"))
    assert FINAL.steps.index(("USER", user)) > max(n for n, (kind, _) in enumerate(FINAL.steps) if kind == "RUN")
    assert FINAL.all("STOPSIGNAL") == ["SIGTERM"]
    (health,) = FINAL.all("HEALTHCHECK")
    assert "/health" in health
    assert FINAL.command("ENTRYPOINT") == ["gateway"]
    assert not any(re.search(r"(?i)password|secret|token|key", name) for name in FINAL.environment())


def health_check() -> list[str]:
    (health,) = FINAL.all("HEALTHCHECK")
    command: list[str] = json.loads(health.partition("CMD ")[2])
    return [sys.executable, *command[1:]]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
async def test_health_check_uses_the_port_of_the_environment(
    status: int, healthy: bool, aiohttp_server: AiohttpServer
) -> None:
    seen = []

    async def health(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=status)

    app = web.Application()
    app.router.add_get("/health", health)
    server = await aiohttp_server(app)
    environment = {"GATEWAY_PORT": str(server.port)}
    done = await asyncio.to_thread(subprocess.run, health_check(), env=environment, capture_output=True, check=False)
    await server.close()
    assert ((done.returncode == 0), seen) == (healthy, ["/health"]), done.stderr
    refused = await asyncio.to_thread(subprocess.run, health_check(), env=environment, capture_output=True, check=False)
    assert refused.returncode != 0


def test_health_check_imports_little() -> None:
    """The health check runs twice a minute: without `site`, and without an HTTP client library."""
    (health,) = FINAL.all("HEALTHCHECK")
    assert "--interval=30s" in health
    assert "-S" in health_check()
    assert re.findall(r"import ([\w, .]+);", health) == ["os, socket"]


def test_image_labels_match_the_package_metadata() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', " ".join(FINAL.all("LABEL"))))
    assert set(labels) == {"title", "description", "version", "licenses"}
    assert (labels["version"], labels["licenses"]) == (project["version"], project["license"])


def test_wheel_builds_are_identical_despite_files_left_by_runs(tmp_path: Path) -> None:
    clean, used = tmp_path / "clean", tmp_path / "used"
    generated = shutil.ignore_patterns("__pycache__", ".compiled.jsonl*")
    for folder in (clean, used):
        for name in ("gateway", "middleware", "catalog", "templates"):
            shutil.copytree(TOP / name, folder / name, ignore=generated)
        for name in ("pyproject.toml", "README.md", "LICENSE", "gateway.yaml"):
            shutil.copy(TOP / name, folder)
    for leftover in ("catalog/.compiled.jsonl", "gateway/__pycache__/app.cpython-311.pyc"):
        (used / leftover).parent.mkdir(exist_ok=True)
        (used / leftover).write_bytes(b"made by a run")
    wheels = []
    for folder in (clean, used):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
        (wheel,) = (folder / "dist").iterdir()
        wheels.append(wheel)
    names = zipfile.ZipFile(wheels[0]).namelist()
    assert {"gateway/data/catalog/jira.yaml", "gateway/data/gateway.yaml", "gateway/data/templates/docs.html"} <= {
        *names
    }
    assert names == zipfile.ZipFile(wheels[1]).namelist()
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


@ONLY_MAKE_IMAGE
@pytest.mark.timeout(600)
def test_build_steps_make_a_gateway_that_serves_on_a_read_only_disk(tmp_path: Path) -> None:
    root, source = tmp_path / "opt", tmp_path / "src"
    _build(root, source)
    state, read_only = tmp_path / "state", tmp_path / "etc"
    state.mkdir()
    environment = FINAL.environment() | {"PATH": f"{root}/bin:{os.environ['PATH']}", "HOME": str(state)}
    subprocess.run(
        [root / "bin" / "gateway", "init", "--dir", read_only], check=True, capture_output=True, env=environment
    )
    port = free_port()
    text = (read_only / "gateway.yaml").read_text().replace("3003", str(port))
    (read_only / "gateway.yaml").write_text(text.replace("sqlite:///gateway.db", f"sqlite:///{state}/gateway.db"))
    compiled = next(root.rglob(".compiled.jsonl"))
    before = compiled.stat().st_mtime_ns
    words = [*FINAL.command("ENTRYPOINT"), *FINAL.command("CMD")]
    command = [word.replace("/etc/gateway", str(read_only)) for word in words]
    with subprocess.Popen(command, cwd=state, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"gateway ready on http://127.0.0.1:{port}\n"
        try:
            check = json.loads(FINAL.all("HEALTHCHECK")[0].partition("CMD ")[2])
            health_check_command = [word.replace("3003", str(port)) for word in check]
            assert subprocess.run(health_check_command, env=environment, check=False).returncode == 0
        finally:
            process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert subprocess.run(health_check_command, env=environment, check=False, capture_output=True).returncode != 0
    assert compiled.stat().st_mtime_ns == before, "the catalog is compiled when the image is built, and not again"


def test_image_installs_only_checked_wheels() -> None:
    installs = [text for text in BUILD.all("RUN") if "-r " in text]
    assert len(installs) == 2
    assert all("--require-hashes --only-binary :all:" in text for text in installs)


@ONLY_MAKE_IMAGE
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-otel.lock"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_dependency_has_a_wheel_for_both_architectures(tmp_path: Path, machine: str, lock: str) -> None:
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in (17, 24, 28, 34)] + [f"manylinux2014_{machine}"]
    subprocess.run(
        [
            *(PYTHON_WITH_PIP, "-m", "pip", "download", "-q", "--require-hashes", "--only-binary", ":all:"),
            *(word for platform in platforms for word in ("--platform", platform)),
            *("--python-version", python_of(FINAL), "--implementation", "cp", "-d", tmp_path, "--no-deps"),
            *("-r", TOP / lock),
        ],
        check=True,
    )


def _python(version: str) -> str:
    """Return a Python of that version if one runs on this machine, else the Python that runs the tests."""
    found = shutil.which(f"python{version}")
    runs = found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    return found if found is not None and runs else PYTHON_WITH_PIP


def _build(root: Path, source: Path) -> None:
    """Run the steps of the first stage, with `root` for /opt/gateway and `source` for its working folder."""
    source.mkdir()
    environment = {**os.environ, **BUILD.environment()}
    environment.pop("VIRTUAL_ENV", None)
    python = _python(python_of(BUILD))
    for instruction, text in BUILD.steps:
        if instruction == "COPY":
            *sources, target = text.split()
            copy(sources, source / target)
        elif instruction == "RUN":
            command = text.replace("/opt/gateway", shlex.quote(str(root))).replace(
                "python3 -m venv", f"{python} -m venv"
            )
            ran = subprocess.run(
                ["/bin/sh", "-ec", command], cwd=source, env=environment, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, (command, ran.stderr)

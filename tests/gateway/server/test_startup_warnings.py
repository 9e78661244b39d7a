"""Warnings at startup: files or ports that others can read, keys that are easy to guess, too few file descriptors."""

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from gateway.config import Config, load
from gateway.config.exposed import exposed_files
from gateway.server.startup_warnings import descriptor_limit, descriptors_needed, warn
from tests.fakes.gateways import ENCRYPTION_KEY, SECRET_KEY


def load_config(folder: Path, **changes: Any) -> Config:
    """Return a configuration with files that only their owner can read."""
    for name, content in (("key", ENCRYPTION_KEY), ("api", SECRET_KEY), ("port", "0"), ("gateway.db", "")):
        (folder / name).write_text(content)
        (folder / name).chmod(0o600)
    document = {
        "server": {"port": "${file:port}", **changes.pop("server", {})},
        "store": {"encryption_keys": ["${file:key}"], **changes.pop("store", {})},
        "environments": {"dev": {"secret_keys": ["${file:api}"]}},
        **changes,
    }
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(document))
    file.chmod(0o600)
    return load(file)


def warnings_of(config: Config, event: str, admin: str | None = None) -> list[dict[str, Any]]:
    with capture_logs() as logged:
        warn(config, admin)
    assert all(item["log_level"] == "warning" and item.get("fix") for item in logged)
    return [dict(item) for item in logged if item["event"] == event]


def test_files_closed_to_others_and_files_without_secrets_cause_no_warning(tmp_path: Path) -> None:
    config = load_config(tmp_path)
    (tmp_path / "port").chmod(0o644)
    (tmp_path / "gateway.yaml").chmod(0o644)  # no warning, because the file contains no secret
    assert warnings_of(config, "file_open_to_others") == []


@pytest.mark.parametrize(
    ("name", "mode"), [("key", 0o644), ("api", 0o640), ("gateway.db", 0o604), ("gateway.yaml", 0o644)]
)
def test_a_file_with_secrets_that_others_may_read_is_named_with_its_mode_and_the_command(
    tmp_path: Path, name: str, mode: int
) -> None:
    literal = {"environments": {"dev": {"secret_keys": [SECRET_KEY]}}} if name == "gateway.yaml" else {}
    config = load_config(tmp_path, **literal)
    (tmp_path / name).chmod(mode)
    (response,) = warnings_of(config, "file_open_to_others")
    assert (response["path"], response["mode"]) == (str(tmp_path / name), f"{mode:04o}")
    assert response["fix"] == f"chmod 600 {tmp_path / name}"


def test_a_file_of_another_user_may_be_readable_by_our_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(tmp_path)
    (tmp_path / "key").chmod(0o640)
    assert len(exposed_files(config)) == 1
    monkeypatch.setattr("gateway.config.exposed.geteuid", lambda: os.geteuid() + 1)
    assert exposed_files(config) == []
    (tmp_path / "key").chmod(0o644)
    assert len(exposed_files(config)) == 1


@pytest.mark.parametrize("value", ["webhook_secret", "private_key", "variables", "proxy", "url"])
def test_every_secret_of_the_configuration_counts(tmp_path: Path, value: str) -> None:
    (tmp_path / "secret").write_text(
        "http://user:password@127.0.0.1:3128" if value == "proxy" else "a-secret-of-sixteen"
    )
    integration = {"provider": "github", "webhook_secret": "${file:secret}"}
    more: dict[str, Any] = {
        "webhook_secret": {"environments": {"dev": {"integrations": {"github": integration}}}},
        "private_key": {"environments": {"dev": {"integrations": {"github": {"private_key": "${file:secret}"}}}}},
        "variables": {"environments": {"dev": {"variables": {"A": "${file:secret}"}}}},
        "proxy": {"egress": {"proxy": "${file:secret}"}},
        "url": {"store": {"encryption_keys": ["${file:key}"], "url": "${file:secret}"}},
    }
    if value == "private_key":
        (tmp_path / "secret").write_text("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n")
    if value == "url":
        (tmp_path / "secret").write_text("postgresql://u:p@127.0.0.1/d")
    (tmp_path / "secret").chmod(0o644)
    (response,) = warnings_of(load_config(tmp_path, **more[value]), "file_open_to_others")
    assert response["path"] == str(tmp_path / "secret")


def test_metrics_open_to_the_network_cause_a_warning_unless_configured(tmp_path: Path) -> None:
    public = {"host": "0.0.0.0", "public_url": "https://gw.example.com", "admin_port": 9100}
    config = load_config(tmp_path, server=public)
    (response,) = warnings_of(config, "metrics_open_to_network", "0.0.0.0")
    assert "server.admin_host" in response["fix"]
    assert (
        warnings_of(config, "metrics_open_to_network", "127.0.0.1") == []
    )  # even if a service manager opened the socket
    configured = replace(config, server=replace(config.server, admin_host="0.0.0.0"))
    assert warnings_of(configured, "metrics_open_to_network", "0.0.0.0") == []


def test_the_metrics_listen_on_admin_host_or_else_on_host(tmp_path: Path) -> None:
    server = load_config(tmp_path, server={"host": "127.0.0.1", "admin_port": 0, "admin_host": "127.0.0.2"}).server
    assert (server.host, server.metrics_host) == ("127.0.0.1", "127.0.0.2")
    assert load_config(tmp_path, server={"admin_port": 0}).server.metrics_host == "127.0.0.1"


def test_a_key_that_can_be_guessed_is_warned_of_with_its_line(tmp_path: Path) -> None:
    config = load_config(tmp_path, store={"encryption_keys": ["${file:key}", "A" * 43 + "="]})
    (response,) = warnings_of(config, "encryption_key_weak")
    assert response["where"].startswith(str(tmp_path / "gateway.yaml"))
    assert response["detail"] == "encryption key 2 is one byte repeated"
    assert "gateway keys rotate" in response["fix"]


LIMITED = """
import resource
from gateway.server.startup_warnings import descriptor_limit
for hard in (900, 256):
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    print(descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_soft_limit_of_descriptors_is_raised_to_the_hard_one() -> None:
    ran = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert ran.stdout == "900 900 900\n256 256 256\n"


def test_too_few_descriptors_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(tmp_path)
    needed = descriptors_needed(config)
    assert needed > 3 * config.egress.limits.outstanding + config.egress.limits.waiting
    monkeypatch.setattr("gateway.server.startup_warnings.descriptor_limit", lambda: needed - 1)
    (response,) = warnings_of(config, "few_file_descriptors")
    assert (response["limit"], response["needed"]) == (needed - 1, needed)
    monkeypatch.setattr("gateway.server.startup_warnings.descriptor_limit", lambda: needed)
    assert warnings_of(config, "few_file_descriptors") == []


def test_the_gateway_starts_although_a_limit_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> tuple[int, int]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "getrlimit", forbidden)
    assert descriptor_limit() is None

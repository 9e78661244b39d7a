"""The program that reads a file in deploy/ accepts it, as far as this can be checked without a Docker engine."""

import re
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from gateway.config import ClientLimitsConfig, load, parse
from gateway.http.response_head import MAX_HEAD_BYTES as RESPONSE_BYTES
from gateway.server.runner import KEEP_ALIVE_S, MAX_FIELD_BYTES, MAX_HEAD_BYTES, MAX_HEADER_LINES, MAX_LINE_BYTES
from tests.deploy import compose
from tests.fakes.certificate import tls_contexts
from tests.fakes.fronts import COMMANDS, DEPLOY, HOST, Ports, program
from tests.fakes.ports import free_port

ENCRYPTION_KEY: Final = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="
FILES: Final = ["compose.yaml", "compose.postgres.yaml"]
NODES: Final = ["172.30.30.11:3003", "172.30.30.12:3003", "172.30.30.13:3003"]
SERVICE: Final = DEPLOY / "gateway.service"


@pytest.mark.parametrize(("name", "check_option"), [("nginx", ["-t"]), ("haproxy", ["-c"])])
def test_the_balancer_accepts_its_configuration(tmp_path: Path, name: str, check_option: list[str]) -> None:
    if program(name) is None:
        pytest.skip(f"{name} is not installed here: apt-get install {name}")
    tls_contexts(HOST, tmp_path)
    write, _ = COMMANDS[name]
    command = write(
        tmp_path,
        tmp_path / "certificate.pem",
        Ports(*(free_port() for _ in range(2)), nodes=tuple(f"127.0.0.1:{free_port()}" for _ in range(3))),
    )
    ran = subprocess.run([*command, *check_option], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "warn" not in (ran.stdout + ran.stderr).lower(), ran.stderr


def test_balancers_accept_heads_as_large_as_the_gateway_does() -> None:
    nginx = (DEPLOY / "nginx.conf").read_text()
    line = re.search(r"large_client_header_buffers (\d+) (\d+)k;", nginx)
    response = re.search(r"proxy_buffer_size (\d+)k;", nginx)
    assert line is not None
    assert response is not None
    assert int(line[2]) * 1024 >= max(MAX_LINE_BYTES, MAX_FIELD_BYTES)
    assert int(line[1]) * int(line[2]) * 1024 >= MAX_HEAD_BYTES
    assert int(response[1]) * 1024 > RESPONSE_BYTES
    haproxy = (DEPLOY / "haproxy.cfg").read_text()
    buffer = re.search(r"tune\.bufsize (\d+)", haproxy)
    lines = re.search(r"tune\.http\.maxhdr (\d+)", haproxy)
    assert buffer is not None
    assert lines is not None
    assert int(buffer[1]) - 1024 > max(RESPONSE_BYTES, MAX_HEAD_BYTES)  # HAProxy keeps tune.maxrewrite free
    assert int(lines[1]) > MAX_HEADER_LINES


def test_the_balancers_close_idle_connections_before_the_gateway_does() -> None:
    nginx = re.search(r"keepalive 64;\n(?:\s+#.*\n)+\s+keepalive_timeout (\d+)s;", (DEPLOY / "nginx.conf").read_text())
    haproxy = re.findall(r"pool-purge-delay (\d+)s", (DEPLOY / "haproxy.cfg").read_text())
    assert nginx is not None
    notice_s = parse({"store": {"encryption_keys": [ENCRYPTION_KEY]}}, base=DEPLOY, environ={}).server.notice_s
    assert int(nginx[1]) < min(2 * notice_s, KEEP_ALIVE_S)  # nginx does not check whether a node is stopping
    assert haproxy
    assert all(int(text) < KEEP_ALIVE_S for text in haproxy)


def test_balancers_give_slow_clients_as_much_time_as_the_gateway() -> None:
    """A slow body gets the gateway's own response, not the balancer's. The balancer's limits are at most twice the
    gateway's.
    """
    nginx, haproxy = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "haproxy.cfg").read_text()

    def number_of_setting(text: str, name: str, unit: str = "s") -> int:
        found = re.search(rf"^\s*{name} (\d+){unit}\b", text, re.MULTILINE)
        assert found is not None, name
        return int(found[1])

    limits = ClientLimitsConfig()
    assert (
        number_of_setting(nginx, "client_header_timeout")
        == number_of_setting(haproxy, "timeout http-request")
        == limits.head_s
    )
    assert limits.body_idle_s < number_of_setting(nginx, "client_body_timeout") <= 2 * limits.body_idle_s
    assert limits.answer_idle_s < number_of_setting(nginx, "send_timeout") <= 2 * limits.answer_idle_s
    assert number_of_setting(nginx, "worker_connections", "") // 2 <= limits.connections


def test_balancers_stop_using_a_node_before_it_closes_its_listener() -> None:
    checks = re.findall(r"inter (\d+)ms .* fall (\d+)", (DEPLOY / "haproxy.cfg").read_text())
    notice_s = parse({"store": {"encryption_keys": [ENCRYPTION_KEY]}}, base=DEPLOY, environ={}).server.notice_s
    assert len(checks) == 2
    assert all(int(inter) * int(fall) / 1000 < notice_s for inter, fall in checks)


def test_all_files_name_the_same_nodes() -> None:
    nodes = compose.read(DEPLOY / "compose.postgres.yaml").services
    fixed = [f"{nodes[f'gateway-{n}'].networks['inside'].ipv4_address}:3003" for n in (1, 2, 3)]
    assert fixed == NODES
    assert re.findall(r"^ +server ([\d.:]+)", (DEPLOY / "nginx.conf").read_text(), re.MULTILINE) == NODES
    assert re.findall(r"server node-\d ([\d.:]+)", (DEPLOY / "haproxy.cfg").read_text()) == NODES * 2


@pytest.mark.parametrize("name", FILES)
def test_compose_file_is_complete(name: str) -> None:
    file = compose.read(DEPLOY / name)
    for service in file.services.values():
        assert set(service.depends_on) <= set(file.services)
        for other in service.depends_on:
            assert file.services[other].healthcheck is not None, f"{other} has no health check"
        for network, place in service.networks.items():
            subnet = ip_network(file.networks[network].ipam.config[0].subnet)
            assert ip_address(place.ipv4_address) in subnet
        for volume in service.volumes:
            assert (volume.type == "volume") == (volume.source in file.volumes)
        if service.build is not None:
            context = (DEPLOY / service.build.context).resolve()
            assert (context / service.build.dockerfile).is_file()
    places = [place.ipv4_address for service in file.services.values() for place in service.networks.values()]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", FILES)
def test_compose_services_have_no_capabilities_and_a_read_only_root(name: str) -> None:
    for service in compose.read(DEPLOY / name).services.values():
        if service.image.startswith("postgres:"):
            assert not service.ports, "the database must not be reachable from outside"
            continue
        assert service.read_only
        assert service.cap_drop == ["ALL"]
        assert service.user is not None
        assert "GATEWAY_USER" in service.user
        for volume in service.volumes:
            written = "init" in (service.entrypoint or ()) or volume.target == "/var/lib/gateway"
            assert volume.read_only is not written, volume


@pytest.mark.parametrize("name", FILES)
def test_compose_file_header_lists_every_variable_and_folder(name: str) -> None:
    text = (DEPLOY / name).read_text()
    header = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    variables = {
        match[1] for match in compose.VARIABLE.finditer("\n".join(text.splitlines()[len(header.splitlines()) :]))
    }
    assert variables >= {"GATEWAY_USER"}
    assert all(f"{variable}=" in header for variable in variables), variables
    made = re.search(r"mkdir -p ((?:\w+ ?)+)", header)
    assert made is not None
    folders = {
        volume.source.removeprefix("./")
        for service in compose.read(DEPLOY / name).services.values()
        for volume in service.volumes
        if volume.type == "bind" and "." not in volume.source.removeprefix("./")
    }
    assert folders == set(made[1].split())


@pytest.mark.parametrize("name", FILES)
def test_a_container_is_given_longer_to_stop_than_it_needs(name: str) -> None:
    drain_s = parse({"store": {"encryption_keys": [ENCRYPTION_KEY]}}, base=DEPLOY, environ={}).server.drain_s
    built = [service for service in compose.read(DEPLOY / name).services.values() if service.build is not None]
    assert built
    for service in built:
        assert service.stop_grace_period is not None
        assert int(service.stop_grace_period.removesuffix("s")) >= drain_s + 30


def test_compose_interpolates_nothing_that_is_meant_for_the_gateway() -> None:
    for name in FILES:
        document = yaml.safe_load((DEPLOY / name).read_text())
        for word in document["services"]["init"]["entrypoint"]:
            assert not compose.VARIABLE.search(word), word


@pytest.mark.parametrize("name", FILES)
def test_init_arguments_in_compose_file_write_a_valid_configuration(tmp_path: Path, name: str) -> None:
    program_name, *words = compose.read(DEPLOY / name).services["init"].entrypoint or ()
    arguments = [word.replace("/etc/gateway", str(tmp_path)).replace("$$", "$") for word in words]
    ran = CliRunner().invoke(main, [*arguments, "--public-url", "https://gateway.example.com"])
    assert (program_name, ran.exit_code) == ("gateway", 0), ran.output
    config = load(tmp_path / "gateway.yaml", environ={"POSTGRES_PASSWORD": "x"})
    assert (config.server.host, config.server.port) == ("0.0.0.0", 3003)
    assert config.store.url in ("sqlite:////var/lib/gateway/gateway.db", "postgresql://gateway:x@postgres/gateway")


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here: apt-get install systemd")
    unit = tmp_path / "gateway.service"
    unit.write_text(SERVICE.read_text().replace("/opt/gateway/bin/gateway", "/bin/true"))
    ran = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "gateway.service" not in ran.stderr  # other units of this machine may have faults
    exposure = subprocess.run(
        [analyze, "security", "--no-pager", "--offline=yes", str(unit)], capture_output=True, text=True, check=False
    )
    level = re.search(r"exposure level for gateway\.service: ([\d.]+)", exposure.stdout)
    assert level is not None, exposure.stderr
    assert float(level[1]) < 2.0, exposure.stdout


def test_systemd_waits_longer_than_the_gateway_drains() -> None:
    drain_s = parse({"store": {"encryption_keys": [ENCRYPTION_KEY]}}, base=DEPLOY, environ={}).server.drain_s
    timeout = re.search(r"TimeoutStopSec=(\d+)", SERVICE.read_text())
    assert timeout is not None
    assert int(timeout[1]) >= drain_s + 30


def test_systemd_ends_no_other_process_when_one_is_out_of_memory() -> None:
    """With the default, `stop`, systemd stops the unit, and the parent process cannot replace the worker."""
    assert "OOMPolicy=continue" in SERVICE.read_text().splitlines()

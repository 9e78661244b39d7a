"""Network namespaces: one for each node, and one for balancer, database, provider and clients. A bridge connects them.

Needs root, `ip` and `iptables`. No packet leaves the namespaces, because they have no route to the machine's own
network.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

PREFIX: Final = "gateway-loss"
HUB: Final = f"{PREFIX}-hub"
BALANCER: Final = "10.77.0.1"
DATABASE: Final = "10.77.0.2"
PROVIDER: Final = "10.77.0.3"
NETWORK: Final = "10.77.0.0/24"
NODES: Final = ("10.77.0.11", "10.77.0.12", "10.77.0.13")


def missing() -> str | None:
    """Return the reason why network namespaces cannot be used here, or None if they can be used."""
    if os.geteuid() != 0:
        return "network namespaces need root: run `make loss` as root"
    for program, package in (("ip", "iproute2"), ("iptables", "iptables")):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    added = subprocess.run(["ip", "netns", "add", f"{PREFIX}-trial"], capture_output=True, text=True, check=False)
    if added.returncode != 0:
        return f"the system refuses network namespaces: {added.stderr.strip()}"
    _run("ip", "netns", "delete", f"{PREFIX}-trial")
    return None


def namespace(node: int) -> str:
    return f"{PREFIX}-{node + 1}"


def inside(name: str, command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` in the namespace `name`. Its process keeps its process ID."""
    return ["ip", "netns", "exec", name, *command]


@contextmanager
def network() -> Iterator[None]:
    """Create the namespaces, and remove them at the end of the block. First remove the namespaces of an earlier run."""
    _remove()
    try:
        _run("ip", "netns", "add", HUB)
        _run_inside(HUB, "ip", "link", "set", "lo", "up")
        _run_inside(HUB, "ip", "link", "add", "bridge", "type", "bridge")
        for address in (BALANCER, DATABASE, PROVIDER):
            _run_inside(HUB, "ip", "address", "add", f"{address}/24", "dev", "bridge")
        _run_inside(HUB, "ip", "link", "set", "bridge", "up")
        for number, address in enumerate(NODES):
            name, port = namespace(number), f"node{number + 1}"
            _run("ip", "netns", "add", name)
            _run_inside(HUB, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run_inside(HUB, "ip", "link", "set", port, "master", "bridge", "up")
            _run_inside(name, "ip", "link", "set", "lo", "up")
            _run_inside(name, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            _run_inside(name, "ip", "link", "set", "eth0", "up")
        yield
    finally:
        _remove()


@contextmanager
def dropped_packets(node: int, address: str) -> Iterator[None]:
    """Drop all packets between this node and `address`, in both directions."""
    rules = (("OUTPUT", "-d", address), ("INPUT", "-s", address))
    for rule in rules:
        _run_inside(namespace(node), "iptables", "-A", *rule, "-j", "DROP")
    try:
        yield
    finally:
        for rule in rules:
            _run_inside(namespace(node), "iptables", "-D", *rule, "-j", "DROP")


def _remove() -> None:
    """Remove the namespaces. End the processes that an interrupted run left running in them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        name = line.split()[0]
        if name.startswith(f"{PREFIX}-"):
            for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, check=True).stdout.split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _run("ip", "netns", "delete", name)


def _run_inside(name: str, *command: str) -> None:
    _run(*inside(name, command))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)

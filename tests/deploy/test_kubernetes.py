"""The manifests in deploy/kubernetes agree with each other, with the configuration in them and with the gateway.

The shapes were checked by kubernetes-validate (docs/deploy.md#kubernetes); no test here needs a cluster.
"""

import re
import tomllib
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from gateway.config import Config, load
from gateway.egress.guard import is_public
from tests.fakes.fronts import DEPLOY
from tests.fakes.postgres import PostgresServer
from tests.fakes.processes import NodeFile, serving

FOLDER: Final = DEPLOY / "kubernetes"
SECRETS: Final = "/run/secrets/gateway"
DOCUMENTS: Final = [item for path in sorted(FOLDER.glob("*.yaml")) for item in yaml.safe_load_all(path.read_text())]
KEYS: Final = {
    "encryption_key": "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE=",
    "secret_key": "sk-kubernetes-0123456789",
    "jira_client_id": "client",
    "jira_client_secret": "a-client-secret-0123456789",
}


def document(kind: str, name: str = "gateway") -> Any:
    (found,) = (item for item in DOCUMENTS if (item["kind"], item["metadata"]["name"]) == (kind, name))
    return found


NODE: Final = document("StatefulSet")["spec"]
POD: Final = NODE["template"]["spec"]
(GATEWAY,) = POD["containers"]
(CHECK,) = POD["initContainers"]
LABELS: Final = NODE["template"]["metadata"]["labels"]


def environment_variables(container: Any) -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in container["env"]}


def write_pod_files(folder: Path, store_url: str) -> Path:
    """Write the files that the pods see into `folder`, and return gateway.yaml. The links are those of the kubelet."""
    texts = {
        "configuration": document("ConfigMap")["data"],
        "catalog": document("ConfigMap", "gateway-catalog")["data"],
        "secrets": {**KEYS, "store_url": store_url, "database_ca.crt": ""},
    }
    for volume, files in texts.items():
        (folder / volume / "..2026_01_01").mkdir(parents=True)
        (folder / volume / "..data").symlink_to("..2026_01_01")
        for name, text in files.items():
            (folder / volume / "..2026_01_01" / name).write_text(with_test_folders(text, folder))
            (folder / volume / name).symlink_to(Path("..data") / name)
    return folder / "configuration" / "gateway.yaml"


def with_test_folders(text: str, folder: Path) -> str:
    """Return `text` with the folders in `folder` in place of those in which the volumes are mounted."""
    folders = {mount["mountPath"]: str(folder / mount["name"]) for mount in GATEWAY["volumeMounts"]}
    mounted = "|".join(sorted(map(re.escape, folders), reverse=True))  # the longest path first
    return re.sub(rf"({mounted})(?![\w-])", lambda match: folders[match[1]], text)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    url = "postgresql://gateway:secret@postgres/gateway"
    return load(write_pod_files(tmp_path, url), environ={"POD_IP": "10.1.2.3"})


def test_manifests_have_one_namespace_and_matching_selectors() -> None:
    assert all(item["metadata"].get("namespace") == "gateway" for item in DOCUMENTS if item["kind"] != "Namespace")
    selectors = [
        NODE["selector"]["matchLabels"],
        document("Service")["spec"]["selector"],
        document("Service", "gateway-nodes")["spec"]["selector"],
        document("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        document("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(constraint["labelSelector"]["matchLabels"] for constraint in POD["topologySpreadConstraints"]),
    ]
    assert all(selector and selector.items() <= LABELS.items() for selector in selectors)
    assert document("Service", NODE["serviceName"])["spec"]["clusterIP"] == "None"
    assert document("ServiceAccount", POD["serviceAccountName"])
    assert NODE["replicas"] >= 2
    assert NODE["replicas"] > document("PodDisruptionBudget")["spec"]["maxUnavailable"]


def test_the_check_runs_with_the_image_and_the_files_of_the_gateway() -> None:
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    assert CHECK["image"] == GATEWAY["image"]
    assert GATEWAY["image"].endswith(f"/integration-gateway:{version}")
    assert (CHECK["args"][1:], GATEWAY["args"][1:]) == (["-c", "/etc/gateway/gateway.yaml"],) * 2
    assert (CHECK["args"][0], GATEWAY["args"][0]) == ("check", "serve")
    assert all(mount in GATEWAY["volumeMounts"] for mount in CHECK["volumeMounts"])
    assert all(item in GATEWAY["env"] for item in CHECK["env"])
    mounted = {mount["name"] for mount in GATEWAY["volumeMounts"]}
    declared = {volume["name"] for volume in POD["volumes"]} | {
        template["metadata"]["name"] for template in NODE["volumeClaimTemplates"]
    }
    assert mounted == declared
    assert not any("subPath" in mount for mount in GATEWAY["volumeMounts"])


def test_configuration_passes_the_check_of_the_init_container(tmp_path: Path) -> None:
    ca = (tmp_path / "secrets" / "database_ca.crt").as_posix()
    path = write_pod_files(
        tmp_path, f"postgresql://gateway:secret@postgres/gateway?sslmode=verify-full&sslrootcert={ca}"
    )
    ran = CliRunner(env={"POD_IP": "10.1.2.3"}).invoke(main, ["check", "-c", str(path)])
    assert ran.exit_code == 0, ran.output
    assert "warning" not in ran.output.lower(), ran.output


def test_the_secret_has_the_files_that_the_configuration_names() -> None:
    text = document("ConfigMap")["data"]["gateway.yaml"]
    named = {*re.findall(rf"\$\{{file:{SECRETS}/([\w.]+)\}}", text), "database_ca.crt"}
    header = (FOLDER / "00-namespace.yaml").read_text()
    assert named == set(re.findall(r"--from-file=([\w.]+)", header))
    assert f"{SECRETS}/database_ca.crt" in header
    assert {mount["name"]: mount["mountPath"] for mount in GATEWAY["volumeMounts"]}["secrets"] == SECRETS
    assert "${POD_IP}" in text
    assert environment_variables(CHECK).keys() >= {"POD_IP"}


def test_ports_are_those_of_the_configuration(config: Config) -> None:
    ports = {port["name"]: port["containerPort"] for port in GATEWAY["ports"]}
    assert ports == {"http": config.server.port, "admin": config.server.admin_port}
    assert [port["targetPort"] for port in document("Service")["spec"]["ports"]] == ["http"]
    assert [port["targetPort"] for port in document("Service", "gateway-nodes")["spec"]["ports"]] == ["admin"]
    probes = [GATEWAY[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert probes == [{"path": path, "port": "admin"} for path in ("/health", "/health", "/ready")]
    scraped = NODE["template"]["metadata"]["annotations"]
    assert scraped == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(config.server.admin_port),
        "prometheus.io/path": "/metrics",
    }
    assert config.server.admin_host == "10.1.2.3"
    assert ip_address(config.server.host).is_unspecified


def test_a_pod_has_longer_to_stop_than_it_needs(config: Config) -> None:
    assert POD["terminationGracePeriodSeconds"] >= config.server.drain_s + 30
    readiness = GATEWAY["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] <= config.server.notice_s < config.server.drain_s


def test_memory_limits_of_the_gateway_are_below_the_limit_of_the_pod(config: Config) -> None:
    limit = GATEWAY["resources"]["limits"]["memory"]
    assert limit == GATEWAY["resources"]["requests"]["memory"] == "1Gi"
    of_worker = config.live.max_bytes + config.egress.page_memory_bytes
    assert config.server.workers * of_worker <= 2**30 / 2
    assert int(GATEWAY["resources"]["requests"]["cpu"]) >= config.server.workers


def test_the_journal_is_on_a_volume_that_outlives_the_pod() -> None:
    (claim,) = NODE["volumeClaimTemplates"]
    (mount,) = (item for item in GATEWAY["volumeMounts"] if item["name"] == claim["metadata"]["name"])
    assert environment_variables(GATEWAY)["STATE_DIRECTORY"] == mount["mountPath"]
    assert not mount.get("readOnly", False)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert NODE["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_mounting_the_volume_again_does_not_open_the_journal_to_others() -> None:
    """`Always`, the default, makes the folder readable for its group, and the gateway does not use such a folder."""
    assert POD["securityContext"]["fsGroup"] == POD["securityContext"]["runAsGroup"]
    assert POD["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_pods_have_no_other_privileges() -> None:
    """The level `restricted` of the Pod Security Standards, and a root file system that cannot be written."""
    assert document("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = POD["securityContext"]
    assert pod["runAsNonRoot"]
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    user = re.search(r"^USER (\d+):(\d+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    assert (pod["runAsUser"], pod["runAsGroup"]) == (int(user[1]), int(user[2]))
    for container in (CHECK, GATEWAY):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        written = {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly", False)}
        assert written <= {"state", "temporary"}
    assert POD["automountServiceAccountToken"] is False
    assert document("ServiceAccount")["automountServiceAccountToken"] is False
    (secrets,) = (volume["secret"] for volume in POD["volumes"] if volume["name"] == "secrets")
    assert secrets["defaultMode"] & 0o007 == 0


def test_kubernetes_sets_no_variable_with_a_name_of_the_gateway() -> None:
    """With service links, the Service `gateway` sets GATEWAY_PORT, which the health check of the image reads."""
    assert POD["enableServiceLinks"] is False
    assert environment_variables(GATEWAY).keys() == {"POD_IP", "STATE_DIRECTORY"}


def test_network_policy_allows_only_needed_connections(config: Config) -> None:
    policy = document("NetworkPolicy")["spec"]
    assert sorted(policy["policyTypes"]) == ["Egress", "Ingress"]
    assert all(rule["from"] for rule in policy["ingress"])
    assert all(rule["to"] for rule in policy["egress"])
    assert [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]] == [["http"], ["admin"]]
    assert [[port["port"] for port in rule["ports"]] for rule in policy["egress"]] == [[53, 53], [5432], [443]]
    for block in (peer["ipBlock"] for peer in policy["egress"][2]["to"]):
        for network in map(ip_network, block["except"]):
            assert network.subnet_of(ip_network(block["cidr"]))  # type: ignore[arg-type]
            assert not is_public(network[1])


async def test_a_real_gateway_answers_the_probes_and_keeps_its_journal_on_the_volume(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway runs with the configuration of the ConfigMap, on free ports."""
    path = write_pod_files(tmp_path, await postgres_server.make_database())
    settings = yaml.safe_load(path.read_text())
    settings["server"] |= {"host": "127.0.0.1", "port": 0, "admin_port": 0, "notice_s": 0}
    path.write_text(yaml.safe_dump(settings))
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o2770)  # as fsGroup leaves the top of a volume
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    async with serving(NodeFile(path)) as gateway, aiohttp.ClientSession() as http:
        origin = gateway.metrics_url.removesuffix("/metrics")
        paths = [GATEWAY[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")]
        for probe in [*paths, NODE["template"]["metadata"]["annotations"]["prometheus.io/path"]]:
            async with http.get(f"{origin}{probe}") as response:
                assert response.status == 200, probe
        assert gateway.entries("refresh_journal_unwritable") == []
        (journal,) = state.iterdir()
        assert any(item.name.endswith("-refresh-journal") for item in journal.iterdir())
        assert (journal / "node-id").is_file()
        async with http.get(f"http://127.0.0.1:{gateway.port}/metrics") as response:
            assert response.status == 404

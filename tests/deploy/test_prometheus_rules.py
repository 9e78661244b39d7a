"""The shipped alerts name existing series, and fire when they should, as checked by Prometheus's promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.observe.metrics import FAMILIES
from tests.fakes.processes import ROOT

FILE = ROOT / "deploy" / "prometheus" / "rules.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
}
PROMTOOL = shutil.which("promtool")
LABELS = 'environment="dev",integration="jira"'

# For each alert, the series that make it fire (one value per minute) and some of the labels that the alert then has.
# A counter with labels has no series before its first event (`_`). An alert on a single event must fire at that event.
FIRES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "GatewayRefreshesRefused": (
        {f'gateway_token_refreshes_total{{{LABELS},outcome="refused"}}': "0+1x90"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayClientSecretRefused": (
        {f'gateway_token_refresh_failures_total{{{LABELS},reason="invalid_client"}}': "_x30 1x60"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayRotationLost": (
        {f'gateway_token_refresh_failures_total{{{LABELS},reason="rotation_lost"}}': "_x30 1x60"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayRefreshFaults": (
        {f'gateway_token_refreshes_total{{{LABELS},outcome="failed"}}': "_x30 1x60"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayTokenEndpointUnavailable": (
        {f'gateway_token_refreshes_total{{{LABELS},outcome="unavailable"}}': "0+2x90"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayRefreshesSlow": (
        {
            f'gateway_token_refresh_seconds_bucket{{{LABELS},le="10.0"}}': "0x90",
            f'gateway_token_refresh_seconds_bucket{{{LABELS},le="30.0"}}': "0+5x90",
            f'gateway_token_refresh_seconds_bucket{{{LABELS},le="+Inf"}}': "0+5x90",
        },
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayRefreshesOverdue": (
        {'gateway_keep_alive_overdue_seconds{environment="dev",state="active"}': "90000x90"},
        {"environment": "dev"},
    ),
    "GatewayConnectionsEnding": (
        {'gateway_connections_ending{environment="dev",within_days="7"}': "3x90"},
        {"environment": "dev"},
    ),
    "GatewayConnectionsDead": (
        {
            'gateway_connections{environment="dev",state="needs_reauth"}': "10x90",
            'gateway_connections{environment="dev",state="active"}': "90x90",
        },
        {"environment": "dev"},
    ),
    "GatewayCredentialsRejected": (
        {f'gateway_rejected_credentials_total{{{LABELS},state="needs_reauth"}}': "0+1x90"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayJournalUnwritable": ({"gateway_refresh_journal_unwritable": "1x90"}, {}),
    "GatewayTokensWrittenBack": ({f"gateway_tokens_written_back_total{{{LABELS}}}": "_x75 1x15"}, {}),
    "GatewaySecretsUnreadable": (
        {'gateway_stored_secrets_unreadable_total{environment="dev",table="connections"}': "_x75 1x15"},
        {"environment": "dev"},
    ),
    "GatewayProviderLeftAlone": ({'gateway_upstream_breakers_open{provider="jira"}': "1x90"}, {"provider": "jira"}),
    "GatewayRateLimited": (
        {f'gateway_proxy_requests_total{{{LABELS},method="GET",status="429",error=""}}': "0+5x90"},
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewaySlow": (
        {
            f'gateway_proxy_duration_seconds_bucket{{{LABELS},part="gateway",le="0.01"}}': "0x90",
            f'gateway_proxy_duration_seconds_bucket{{{LABELS},part="gateway",le="0.05"}}': "0+100x90",
            f'gateway_proxy_duration_seconds_bucket{{{LABELS},part="gateway",le="+Inf"}}': "0+100x90",
        },
        {},
    ),
    "GatewayUnhandledErrors": (
        {
            f'gateway_proxy_requests_total{{{LABELS},method="GET",status="500",error="generic_error_support"}}': "_x75 1x15"
        },
        {"environment": "dev", "integration": "jira"},
    ),
    "GatewayInvalidKeys": ({"gateway_invalid_keys_total": "0+50x90"}, {}),
    "GatewayEventsWait": ({'gateway_events_oldest_seconds{environment="dev"}': "1000x90"}, {"environment": "dev"}),
    "GatewayEventsDead": (
        {'gateway_event_deliveries_total{environment="dev",outcome="dead"}': "_x30 1x60"},
        {"environment": "dev"},
    ),
    "GatewayDown": ({"gateway_build_info": "1x30 _x60"}, {}),
    "GatewayRestarts": ({'gateway_start_time_seconds{instance="a"}': "0+60x90"}, {"instance": "a"}),
    "GatewayVersionsMixed": (
        {f'gateway_build_info{{instance="{name}",version="0.{name}.0"}}': "1x90" for name in "12"},
        {},
    ),
    "GatewayReconciling": ({"gateway_failover_reconciling": "1x90"}, {}),
    "GatewayWorkersMissing": (
        {'gateway_workers{instance="a"}': "1x90", 'gateway_workers_wanted{instance="a"}': "2x90"},
        {"instance": "a"},
    ),
    "GatewayStoreAway": ({"gateway_store_away": "1x90"}, {}),
    "GatewayStoreUnwritable": ({'gateway_store_unwritable{instance="a"}': "1x90"}, {"instance": "a"}),
    "GatewayDatabaseWaits": (
        {
            'gateway_database_wait_seconds_total{access="read"}': "0+20x90",
            'gateway_database_accesses_total{access="read"}': "0+100x90",
        },
        {"access": "read"},
    ),
    "GatewayPruneFails": ({'gateway_prune_success_timestamp_seconds{what="store"}': "-7200x90"}, {"what": "store"}),
    "GatewayBackupOld": ({"gateway_backup_success_timestamp_seconds": "-172800x90"}, {}),
    "GatewayAuditNotSealed": ({"gateway_audit_not_sealed": "1x90"}, {}),
    "GatewayClockOff": ({'gateway_clock_offset_seconds{instance="a"}': "-5x90"}, {"instance": "a"}),
    "GatewayLoopLag": ({'gateway_event_loop_lag_seconds{instance="a"}': "0.5x90"}, {"instance": "a"}),
    "GatewayFileDescriptors": (
        {
            'process_open_fds{instance="a"}': "900x90",
            'process_max_fds{instance="a"}': "1000x90",
            'gateway_build_info{instance="a"}': "1x90",
        },
        {"instance": "a"},
    ),
    "GatewayClientsTurnedAway": ({"gateway_client_connections_refused_total": "_x78 1x12"}, {}),
    "GatewayReloadRefused": ({'gateway_catalog_reloads_total{outcome="refused"}': "_x78 1x12"}, {}),
    "GatewayCallLogDropped": ({"gateway_request_log_dropped_total": "0+1x90"}, {}),
}


def test_every_alert_has_series_that_make_it_fire() -> None:
    assert FIRES.keys() == RULES.keys()


def assert_names_exist(expr: str) -> None:
    """Assert that the series of `expr` exist and have the labels that `expr` uses."""
    series_and_labels = re.findall(r"\b((?:gateway|process)_\w+)(?:\{([^}]*)\})?", expr)
    assert series_and_labels
    for series, labels in series_and_labels:
        family = FAMILIES[series.removesuffix("_bucket")]
        assert set(re.findall(r"(\w+)(?:=~?|!=)\"", labels)) <= set(family.labels), series
    grouped = {label.strip() for some in re.findall(r"by \(([^)]*)\)", expr) for label in some.split(",")}
    families = [FAMILIES[series.removesuffix("_bucket")] for series, _ in series_and_labels]
    assert grouped <= {"le", "instance", *(label for family in families for label in family.labels)}


@pytest.mark.parametrize("name", RULES)
def test_an_alert_names_series_and_labels_that_exist(name: str) -> None:
    assert_names_exist(RULES[name]["expr"])
    assert RULES[name]["annotations"].keys() == {"summary", "fix"}


def test_the_dashboard_names_series_and_labels_that_exist() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "gateway.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(expressions) == 21
    for expr in expressions:
        assert_names_exist(expr)


def run_promtool(tmp_path: Path, quiet: bool) -> subprocess.CompletedProcess[str]:
    """Run promtool on each alert with its series; if `quiet`, with series on which no alert fires.

    Each alert has its own file, so that promtool evaluates no other alert on its series.
    """
    files = list[Path]()
    for name, (series, labels) in FIRES.items():
        rule = RULES[name]
        values = "0x90" if quiet else None
        fired = {"exp_labels": {**rule["labels"], **labels}}
        test = {
            "interval": "1m",
            "input_series": [{"series": selector, "values": values or text} for selector, text in series.items()],
            "alert_rule_test": [{"eval_time": "80m", "alertname": name, "exp_alerts": [] if quiet else [fired]}],
        }
        alone = {part: value for part, value in rule.items() if part != "annotations"}  # annotations contain values
        rules = {"groups": [{"name": name, "rules": [alone]}]}
        (tmp_path / f"{name}.rules.yaml").write_text(json.dumps(rules))
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(json.dumps({"rule_files": [f"{name}.rules.yaml"], "tests": [test]}))
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, "test", "rules", *files], capture_output=True, text=True, check=False)


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of the Debian package prometheus")
def test_prometheus_accepts_the_rules_and_each_alert_fires_only_on_its_series(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    checked = subprocess.run([PROMTOOL, "check", "rules", FILE], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    fired = run_promtool(tmp_path, quiet=False)
    assert fired.returncode == 0, fired.stdout + fired.stderr
    quiet = run_promtool(tmp_path, quiet=True)
    assert quiet.returncode == 0, quiet.stdout + quiet.stderr

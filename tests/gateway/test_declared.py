"""A host sees one kind of exception, whichever file is at fault, and all faults in it."""

from pathlib import Path
from typing import Any

import pytest

import gateway
from gateway.config import Faults

KEY = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="


@pytest.fixture
def faulty_catalog(tmp_path: Path) -> str:
    (tmp_path / "tracker.yaml").write_text("display_name: Tracker\ncategoris: [x]\n")
    return str(tmp_path)


def configuration(**more: Any) -> dict[str, Any]:
    environments = {"dev": {"secret_keys": ["a-secret-key-of-dev"], "integrations": {"jria": {}}}}
    return {"store": {"encryption_keys": [KEY]}, "environments": environments, **more}


def test_a_catalog_at_fault_raises_what_a_configuration_at_fault_does(faulty_catalog: str) -> None:
    with pytest.raises(Faults) as told:
        gateway.create_app(configuration(catalog=[faulty_catalog]))
    assert "unknown key 'categoris'" in str(told.value)
    assert "no provider 'jria'" in str(told.value)


def test_all_three_kinds_of_faults_come_at_once(faulty_catalog: str) -> None:
    with pytest.raises(Faults) as told:
        gateway.create_app(configuration(catalog=[faulty_catalog], live={"ttl_s": "never"}))
    assert "live.ttl_s: must be a number" in str(told.value)
    assert "unknown key 'categoris'" in str(told.value)
    assert "no provider 'jria'" in str(told.value)

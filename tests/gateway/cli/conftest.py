"""Configurations with an own catalog folder, as an operator has them."""

from pathlib import Path

import pytest

from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.gateway.cli.config_file import ConfigFile

TRACKER = """\
display_name: Tracker
categories: [ticketing]
docs: https://docs.example.com/oauth
auth_mode: OAUTH2
authorization_url: https://auth.example.com/authorize
token_url: https://auth.example.com/token
proxy:
  base_url: https://api.example.com
"""


@pytest.fixture
def config_folder(tmp_path: Path) -> Path:
    """A configuration with a catalog folder of its own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tracker.yaml").write_text(TRACKER)
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "server: {public_url: 'https://gw.example.com'}\ncatalog: [mine]\n"
        "store: {encryption_keys: [dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE=]}\n"
    )
    return file


@pytest.fixture
def config_file(running: RunningGateway) -> ConfigFile:
    """The configuration of a running gateway with its provider."""
    return ConfigFile(running.folder / "gateway.yaml", running.document)


@pytest.fixture
def config_only(tmp_path: Path) -> ConfigFile:
    """The configuration of a gateway that has never run. Its provider does not exist."""
    write_entry(tmp_path, "tracker", tracker_entry("http://127.0.0.1:9"))
    return ConfigFile(tmp_path / "gateway.yaml", document(["127.0.0.1/32:9"]))

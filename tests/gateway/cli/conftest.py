"""A configuration with a catalog folder of its own, as an operator has it."""

from pathlib import Path

import pytest

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
def mine(tmp_path: Path) -> Path:
    """A configuration with a catalog folder of its own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tracker.yaml").write_text(TRACKER)
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "server: {public_url: 'https://gw.example.com'}\ncatalog: [mine]\n"
        "store: {encryption_keys: [QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=]}\n"
    )
    return file

"""Catalog folders as an operator would write them."""

from pathlib import Path
from textwrap import dedent

from gateway import resources

SHIPPED = resources.folder("catalog")
SCRIPTS = frozenset({"jira_post_connection", "jira_webhook_routing"})

# The two smallest entries, as on the product page.
TRACKER = """\
    display_name: Tracker
    categories: [ticketing]
    docs: https://docs.example.com/oauth
    auth_mode: OAUTH2
    authorization_url: https://auth.example.com/authorize
    token_url: https://auth.example.com/token
    token_request_auth_method: basic   # or body
    default_scopes: [offline_access]
    connection_configuration: [cloudId, subdomain]
    post_connection_script: jira_post_connection
    webhook_routing_script: jira_webhook_routing
    proxy:
      base_url: https://api.example.com
"""
MAIL = """\
    display_name: Mail API
    categories: [email]
    docs: https://docs.example.com
    auth_mode: API_KEY
    proxy:
      base_url: https://api.example.com/v1
      headers: {x-api-key: "${apiKey}"}
      decompress: true
"""


def folder(path: Path, **files: str) -> Path:
    """Write one entry per keyword: ``folder(tmp_path, mail_api=MAIL)`` writes ``mail-api.yaml``. Return the folder."""
    for name, text in files.items():
        (path / f"{name.replace('_', '-')}.yaml").write_text(dedent(text), encoding="utf-8")
    return path

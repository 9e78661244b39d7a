"""docs/sandbox.md lists every fault, scope, account and route."""

from pathlib import Path

from gateway.sandbox import app
from gateway.sandbox.accounts import ACCOUNTS, SCOPES
from gateway.sandbox.faults import FAULTS
from gateway.sandbox.sandbox_memory import SandboxMemory
from gateway.sandbox.state import Sandbox

TEXT = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()


def test_the_page_is_complete() -> None:
    texts = [*FAULTS, *SCOPES, *(account.email for account in ACCOUNTS.values())]
    texts += [option for fault in FAULTS.values() for option in fault.options]
    assert [name for name in texts if f"`{name}`" not in TEXT] == []


def test_page_describes_every_machine_readable_route() -> None:
    built = app.create_app(Sandbox("http://127.0.0.1:1", {}, SandboxMemory(None, token_ttl_s=60)))
    pages = {"/", "/oauth/login", "/oauth/logout", "/oauth/consent", "/avatars/{label}.svg"}
    paths = {route.resource.canonical for route in built.router.routes() if route.resource is not None} - pages
    assert [path for path in paths if path.rpartition("/")[2].partition("{")[0] not in TEXT] == []

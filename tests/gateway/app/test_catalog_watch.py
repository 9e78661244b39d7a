"""Catalog files change while the gateway runs: each change takes effect automatically, and a faulty file changes
nothing."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
import yaml
from aiohttp import web

import gateway
from gateway.app import catalog_watch
from gateway.app.catalog_watch import CatalogWatch
from gateway.server.serving_worker import beside
from tests.fakes.gateways import SECRET_KEY, RunningGateway, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import Files, serving
from tests.fakes.tracker import Tracker

MAIL = {
    "display_name": "Mail",
    "categories": ["email"],
    "auth_mode": "NONE",
    "proxy": {"base_url": "https://mail.test"},
}


@pytest.fixture(autouse=True)
def _short_quiet_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_watch, "QUIET_MS", 20)


@pytest.fixture
def log_events() -> Iterator[list[dict[str, Any]]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


@pytest.fixture
async def watching_gateway(running: RunningGateway) -> AsyncIterator[RunningGateway]:
    """The fixture `running`, whose catalog folder is watched."""
    async with beside(CatalogWatch(running.app).run()):
        yield running


async def wait_until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


def provider_names(running: RunningGateway) -> set[str]:
    return set(running.runtime.generation.catalog.providers)


def events(log_events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [entry for entry in log_events if entry["event"] == name]


async def test_added_changed_and_deleted_files_take_effect(
    watching_gateway: RunningGateway, log_events: list[dict[str, Any]]
) -> None:
    write_entry(watching_gateway.folder, "mail", MAIL)
    await wait_until(lambda: "mail" in provider_names(watching_gateway))
    assert (await watching_gateway.json("GET", "/providers/mail", expect=200))["data"]["display_name"] == "Mail"
    write_entry(watching_gateway.folder, "mail", {**MAIL, "display_name": "Post"})
    await wait_until(lambda: watching_gateway.runtime.generation.catalog.providers["mail"].display_name == "Post")
    assert (await watching_gateway.json("GET", "/providers/mail"))["data"]["display_name"] == "Post"
    (watching_gateway.folder / "catalog" / "mail.yaml").unlink()
    await wait_until(lambda: "mail" not in provider_names(watching_gateway))
    await watching_gateway.json("GET", "/providers/mail", expect=404)
    kinds = [set(entry) & {"added", "changed", "removed"} for entry in events(log_events, "catalog_changed")]
    assert kinds == [{"added"}, {"changed"}, {"removed"}]


async def test_shipped_entry_is_used_again_after_its_override_is_deleted(watching_gateway: RunningGateway) -> None:
    write_entry(watching_gateway.folder, "jira", {"alias": "jira", "display_name": "Our Jira"})
    await wait_until(lambda: watching_gateway.runtime.generation.catalog.providers["jira"].display_name == "Our Jira")
    (watching_gateway.folder / "catalog" / "jira.yaml").unlink()
    await wait_until(lambda: watching_gateway.runtime.generation.catalog.providers["jira"].display_name == "Jira")
    assert (await watching_gateway.json("GET", "/providers/jira"))["data"]["display_name"] == "Jira"


async def test_next_request_uses_the_new_entry_and_a_running_one_the_old(
    watching_gateway: RunningGateway, tracker: Tracker
) -> None:
    await watching_gateway.import_connection(tracker.grant())
    async with watching_gateway.call_proxy("c1") as response:
        assert (await response.json())["path"] == "/x"
    tracker.hold_api.clear()
    is_refreshing = asyncio.ensure_future(watching_gateway.call_proxy("c1", "/slow"))
    await wait_until(lambda: any(request.path == "/slow" for request in tracker.seen))
    write_entry(watching_gateway.folder, "tracker", tracker_entry(tracker.url, proxy={"base_url": f"{tracker.url}/v2"}))
    await wait_until(
        lambda: watching_gateway.runtime.generation.catalog.providers["tracker"].proxy.base_url.endswith("/v2")
    )
    tracker.hold_api.set()
    async with watching_gateway.call_proxy("c1") as response:
        assert (await response.json())["path"] == "/v2/x"
    async with await is_refreshing as response:
        assert (await response.json())["path"] == "/slow"


async def test_fast_path_drops_cached_connection_data_on_a_catalog_change(
    watching_gateway: RunningGateway, tracker: Tracker
) -> None:
    await watching_gateway.import_connection(tracker.grant())
    for _ in range(3):
        async with watching_gateway.call_proxy("c1") as response:
            assert response.status == 200
    handed_over_before = watching_gateway.fast_path.handed_over
    entry = tracker_entry(tracker.url, proxy={"base_url": tracker.url, "headers": {"x-added": "by-the-entry"}})
    write_entry(watching_gateway.folder, "tracker", entry)
    await wait_until(lambda: watching_gateway.runtime.generation.catalog.providers["tracker"].proxy.headers)
    async with watching_gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert tracker.seen[-1].headers["x-added"] == "by-the-entry"
    assert watching_gateway.fast_path.handed_over >= handed_over_before


async def test_a_faulty_file_keeps_the_old_entry_and_is_reported_once(
    watching_gateway: RunningGateway, log_events: list[dict[str, Any]]
) -> None:
    before = watching_gateway.runtime.generation.catalog.providers["tracker"]
    path = watching_gateway.folder / "catalog" / "tracker.yaml"
    sound = path.read_text()
    path.write_text(sound + "tokn_url: https://x.test\n")
    write_entry(watching_gateway.folder, "one", MAIL)
    await wait_until(lambda: "one" in provider_names(watching_gateway) and events(log_events, "fault"))
    write_entry(watching_gateway.folder, "two", MAIL)
    await wait_until(lambda: "two" in provider_names(watching_gateway))
    faults = [entry["detail"] for entry in events(log_events, "fault")]
    assert len(faults) == 1
    line = sound.count("\n") + 1
    assert faults[0].endswith(f"tracker.yaml:{line}: unknown key 'tokn_url'; did you mean 'token_url'?")
    assert watching_gateway.runtime.generation.catalog.providers["tracker"] == before
    assert watching_gateway.runtime.generation.catalog.file_and_line("tracker", "display_name").endswith(
        "tracker.yaml:1"
    )
    path.write_text(sound.replace("display_name: Tracker", "display_name: Mended"))
    await wait_until(lambda: watching_gateway.runtime.generation.catalog.providers["tracker"].display_name == "Mended")
    await wait_until(lambda: events(log_events, "catalog_fault_over"))
    (over,) = events(log_events, "catalog_fault_over")
    assert [Path(name).name for name in over["files"]] == ["tracker.yaml"]
    path.write_text("]")
    await wait_until(lambda: len(events(log_events, "fault")) == 2)
    assert watching_gateway.runtime.generation.catalog.providers["tracker"].display_name == "Mended"


async def test_entries_that_inherit_from_a_faulty_entry_keep_their_previous_content(
    watching_gateway: RunningGateway, log_events: list[dict[str, Any]]
) -> None:
    write_entry(watching_gateway.folder, "base", MAIL)
    write_entry(watching_gateway.folder, "heir", {"alias": "base", "display_name": "Heir"})
    await wait_until(lambda: "heir" in provider_names(watching_gateway))
    write_entry(watching_gateway.folder, "base", {**MAIL, "proxy": {}})
    await wait_until(lambda: len(events(log_events, "fault")) == 2)
    assert {"base", "heir"} <= provider_names(watching_gateway)


async def test_entry_that_an_integration_needs_stays_after_its_file_is_deleted(
    watching_gateway: RunningGateway, tracker: Tracker, log_events: list[dict[str, Any]]
) -> None:
    await watching_gateway.import_connection(tracker.grant())
    (watching_gateway.folder / "catalog" / "tracker.yaml").unlink()
    await wait_until(lambda: events(log_events, "fault"))
    assert "the catalog has no provider 'tracker'" in events(log_events, "fault")[0]["detail"]
    assert events(log_events, "catalog_fault")[0]["kept"] == ["tracker"]
    async with watching_gateway.call_proxy("c1") as response:
        assert response.status == 200


async def test_entries_stay_after_their_folder_is_removed(
    watching_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, log_events: list[dict[str, Any]]
) -> None:
    write_entry(watching_gateway.folder, "mail", MAIL)
    await wait_until(lambda: "mail" in provider_names(watching_gateway))
    monkeypatch.setattr(catalog_watch, "RECHECK_S", 0.02)
    shutil.move(watching_gateway.folder / "catalog", watching_gateway.folder / "away")
    await wait_until(lambda: any("cannot be read" in entry["detail"] for entry in events(log_events, "fault")))
    assert {"mail", "tracker"} <= provider_names(watching_gateway)
    (fault,) = events(log_events, "catalog_fault")
    assert fault["kept"] == ["mail", "tracker"], "the shipped entries are not listed"


async def test_replaced_symlink_is_noticed(watching_gateway: RunningGateway) -> None:
    """Kubernetes changes the files of a ConfigMap by replacing a symlink."""
    catalog = watching_gateway.folder / "catalog"
    for version in ("one", "two"):
        (catalog / f"..{version}").mkdir()
        entry = yaml.safe_dump({**MAIL, "display_name": version})
        (catalog / f"..{version}" / "mail.yaml").write_text(entry)
    (catalog / "..data").symlink_to("..one")
    (catalog / "mail.yaml").symlink_to("..data/mail.yaml")
    await wait_until(lambda: "mail" in provider_names(watching_gateway))
    (catalog / "..new").symlink_to("..two")
    (catalog / "..new").rename(catalog / "..data")
    await wait_until(lambda: watching_gateway.runtime.generation.catalog.providers["mail"].display_name == "two")
    assert (await watching_gateway.json("GET", "/providers/mail"))["data"]["display_name"] == "two"


async def test_changes_between_start_and_watch_are_applied(running: RunningGateway) -> None:
    write_entry(running.folder, "mail", MAIL)
    assert "mail" not in provider_names(running)
    async with beside(CatalogWatch(running.app).run()):
        await wait_until(lambda: "mail" in provider_names(running))


async def test_catalog_files_are_not_read_while_nothing_changes(
    watching_gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_entry(watching_gateway.folder, "mail", MAIL)
    await wait_until(lambda: "mail" in provider_names(watching_gateway))
    read: list[Any] = []
    monkeypatch.setattr(catalog_watch, "read_catalog_again", lambda *given: read.append(given))
    looks = 0
    real = catalog_watch.folders_state

    def count_look(folders: Any) -> int:
        nonlocal looks
        looks += 1
        return real(folders)

    monkeypatch.setattr(catalog_watch, "folders_state", count_look)
    before = watching_gateway.runtime
    (watching_gateway.folder / "catalog" / "notes.txt").write_text("no entry")
    await wait_until(lambda: looks)
    assert read == []
    assert watching_gateway.runtime is before


async def test_host_application_watches_the_catalog_with_one_line(tmp_path: Path) -> None:
    write_entry(tmp_path, "mail", MAIL)
    from tests.fakes.gateways import document

    content = document([])
    del content["environments"]["dev"]["integrations"]["tracker"]
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(content))
    app = gateway.create_app(tmp_path / "gateway.yaml")
    app.cleanup_ctx.append(gateway.watch)
    async with _start_watch(app):
        write_entry(tmp_path, "post", MAIL)
        from gateway.runtime import RUNTIME

        assert "post" not in app[RUNTIME].generation.catalog.providers
        await wait_until(lambda: "post" in app[RUNTIME].generation.catalog.providers)


@asynccontextmanager
async def _start_watch(app: web.Application) -> AsyncIterator[None]:
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_every_worker_applies_the_change_and_one_logs_it(tmp_path: Path) -> None:
    files = Files(tmp_path, 9, workers=2, port=0)
    async with serving(files) as process, aiohttp.ClientSession() as http:
        write_entry(tmp_path, "mail", MAIL)
        (tmp_path / "catalog" / "broken.yaml").write_text("display_name: [\n")
        await process.logged("catalog_changed")

        async def is_served() -> bool:
            headers = {"Authorization": f"Bearer {SECRET_KEY}", "Connection": "close"}
            async with http.get(f"http://127.0.0.1:{process.port}/providers/mail", headers=headers) as response:
                return response.status == 200

        async with asyncio.timeout(PATIENCE_S):
            in_a_row = 0
            while in_a_row < 16:  # each request on its own connection, so that both workers are reached
                in_a_row = in_a_row + 1 if await is_served() else 0
        faults = [entry for entry in process.log if entry["event"] == "fault"]
        assert len(faults) == 1
        assert "broken.yaml" in faults[0]["detail"]

"""Applies catalog files that change while the gateway runs: each file separately, without a signal or a restart.

SIGHUP applies all files or none (`app.reload`). This module instead applies each file that has no fault. The old entry
stays for a faulty file, and for a change that would break a declared integration. Only the operator's folders are
watched, because shipped files do not change.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

import structlog
from aiohttp import web

from gateway import clock
from gateway.app.generations import CheckedConfiguration, replace_generation
from gateway.catalog.folder import folders_state
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.yaml_file import CatalogFaults
from gateway.config import Config, Fault
from gateway.integrations.declared import catalog_of, integrations
from gateway.observe.metrics import CATALOG_RELOADS, Metrics
from gateway.runtime import RUNTIME

QUIET_MS: Final = (
    200  # a file that is still being written changes again within this time; also the thread's polling interval
)
POLL_MS: Final = 300  # polling interval if the system reports no changes and WATCHFILES_FORCE_POLLING is set
MAX_DELAY_MS: Final = 2000  # files that change all the time are read after this time
WAIT_MS: Final = 1000
# The folders are also read at this interval, because some changes cause no event, for example on a network file
# system, or in a folder that was removed and created again.
RECHECK_S: Final = 10.0
ENTRY_STAYS: Final = "the entry in use stays"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatalogReading:
    """The result of reading the catalog again. `faults`: the faults in its files. `kept`: names of the entries that
    stay in their old version because of these faults."""

    catalog: Catalog
    faults: tuple[Fault, ...] = ()
    kept: frozenset[str] = frozenset()


@dataclass(slots=True)
class CatalogWatch:
    """Watches the catalog folders. `logs`: True in one worker and False in all others, so that each change is logged
    and counted once. `folders_state`: the state of the folders at the last reading. `logged_faults`: faults that are
    logged already. `faulty_files`: files with faults."""

    app: web.Application
    logs: bool = True
    folders_state: int | None = None
    logged_faults: frozenset[str] = field(default_factory=frozenset)
    faulty_files: frozenset[str] = field(default_factory=frozenset)

    async def run(self) -> None:
        """Apply changes of the folders to the catalog of `app` until cancelled. The first check also finds changes
        since the catalog was read."""
        while True:
            folders = self._folders()
            try:
                async with aclosing(_wait_for_changes(folders)) as changes:
                    async for _ in changes:
                        if self._folders() != folders:
                            break
                        await self.apply_changes()
            except Exception as fault:  # noqa: BLE001 (the next attempt may succeed, and this task must not end)
                log.warning("catalog_not_watched", detail=str(fault), again_in_s=RECHECK_S)
                await asyncio.sleep(RECHECK_S)

    async def apply_changes(self) -> None:
        """Apply the changes since the last call, or since the catalog was read."""
        runtime = self.app[RUNTIME]
        async with runtime.reloading:
            current_generation = runtime.generation
            if self.folders_state is None:
                self.folders_state = current_generation.catalog.folders_state
            state = await asyncio.to_thread(folders_state, current_generation.config.catalog)
            if state == self.folders_state:
                return
            reading = await asyncio.to_thread(read_catalog_again, current_generation.config, current_generation.catalog)
            self.folders_state = state
            old_contents, new_contents = (
                current_generation.catalog.providers.contents,
                reading.catalog.providers.contents,
            )
            if old_contents != new_contents:
                replace_generation(
                    runtime,
                    CheckedConfiguration(
                        current_generation.config, reading.catalog, current_generation.integrations.declared
                    ),
                )
            self._report(runtime.metrics, reading, _differences(old_contents, new_contents))

    def _folders(self) -> tuple[Path, ...]:
        return self.app[RUNTIME].generation.config.catalog

    def _report(self, metrics: Metrics, reading: CatalogReading, differences: dict[str, list[str]]) -> None:
        """Log new faults, fixed files and changed entries. A fault that is still there is not logged again."""
        new_faults = [str(fault) for fault in reading.faults if str(fault) not in self.logged_faults]
        self.logged_faults = frozenset(map(str, reading.faults))
        faulty_files = frozenset(_file_name(fault) for fault in reading.faults)
        fixed_files, self.faulty_files = self.faulty_files - faulty_files, faulty_files
        if not self.logs:
            return
        for fault in new_faults:
            log.error("fault", detail=fault)
        if new_faults:
            log.error("catalog_fault", effect=ENTRY_STAYS, kept=sorted(reading.kept))
            metrics.add(CATALOG_RELOADS, "refused")
        if fixed_files:
            log.info("catalog_fault_over", files=sorted(fixed_files))
        if differences:
            log.info("catalog_changed", **differences)
            metrics.add(CATALOG_RELOADS, "taken")


def _file_name(fault: Fault) -> str:
    """Return `fault.where` without its line number; a folder is returned unchanged."""
    file, _, line = fault.where.rpartition(":")
    return file if line.isdigit() else fault.where


def read_catalog_again(config: Config, current_catalog: Catalog) -> CatalogReading:
    """Read the catalog of `config` again. If the new version of an entry cannot be used, keep the entry of
    `current_catalog`."""
    try:
        new_catalog, faults = catalog_of(config), list[Fault]()
    except CatalogFaults as refusal:
        new_catalog, faults = refusal.catalog, list(refusal.faults)
        if any(fault.line == 0 for fault in refusal.faults):  # an unreadable folder does not delete its entries
            return CatalogReading(current_catalog, tuple(faults), current_catalog.names_in_folders(config.catalog))
    kept_names = {name for name in new_catalog.faulty if name in current_catalog.providers}
    new_catalog = new_catalog.with_entries_from(kept_names, current_catalog)
    for name, entry_faults in _breaking_changes(config, new_catalog, current_catalog):
        kept_names.add(name)
        faults += entry_faults
    return CatalogReading(
        new_catalog.with_entries_from(kept_names, current_catalog), tuple(faults), frozenset(kept_names)
    )


def _breaking_changes(
    config: Config, new_catalog: Catalog, current_catalog: Catalog
) -> Iterator[tuple[str, Sequence[Fault]]]:
    """Yield the name and the faults of each entry that is valid by itself, or was deleted, but would break a declared
    integration."""
    used_providers = {
        integration.provider
        for environment in config.environments.values()
        for integration in environment.integrations.values()
    }
    old_contents, new_contents = current_catalog.providers.contents, new_catalog.providers.contents
    changed_names = {
        name for name in used_providers if name in old_contents and old_contents[name] != new_contents.get(name)
    }
    for name in sorted(changed_names):
        _, faults, _ = integrations(config, new_catalog.with_entries_from(changed_names - {name}, current_catalog))
        if faults:
            yield name, faults


def _differences(old_contents: dict[str, bytes], new_contents: dict[str, bytes]) -> dict[str, list[str]]:
    names = {
        "added": [name for name in new_contents if name not in old_contents],
        "changed": [name for name in new_contents if name in old_contents and old_contents[name] != new_contents[name]],
        "removed": [name for name in old_contents if name not in new_contents],
    }
    return {kind: entry_names for kind, entry_names in names.items() if entry_names}


async def _wait_for_changes(folders: Sequence[Path]) -> AsyncGenerator[None]:
    """Yield immediately, then after each change in `folders`, and at least every `RECHECK_S` seconds. End if a folder
    appears or disappears, so that the caller starts a new watch."""
    yield
    existing = [folder for folder in folders if folder.exists()]
    if not existing:
        await asyncio.sleep(RECHECK_S)
        return
    async with aclosing(_watch_files(existing)) as waits:
        check_at = 0.0  # yield after the first wait, because files may have changed before the watch began
        async for has_changed in waits:
            if has_changed or clock.monotonic() >= check_at:
                check_at = clock.monotonic() + RECHECK_S
                yield
            if not has_changed and {folder for folder in folders if folder.exists()} != set(existing):
                return


async def _watch_files(folders: Sequence[Path]) -> AsyncGenerator[bool]:
    """Yield True after each change, and False after every `WAIT_MS` milliseconds without a change.

    On cancellation, the generator first waits for the end of its thread, because the thread still uses the watch. This
    takes up to `QUIET_MS` milliseconds.
    """
    from watchfiles import watch  # imported here, because a gateway without catalog folders does not need watchfiles

    stop_event, loop = Event(), asyncio.get_running_loop()
    changes = watch(
        *folders,
        watch_filter=None,
        debounce=MAX_DELAY_MS,
        step=QUIET_MS,
        stop_event=stop_event,
        rust_timeout=WAIT_MS,
        yield_on_timeout=True,
        poll_delay_ms=POLL_MS,
        recursive=False,
        ignore_permission_denied=True,
    )
    with ThreadPoolExecutor(1, "watch_catalog") as thread, closing(changes):
        while True:
            next_changes = loop.run_in_executor(thread, next, changes, None)
            try:
                new_changes = await asyncio.shield(next_changes)
            finally:
                stop_event.set()
                await asyncio.wait([next_changes])
                stop_event.clear()
            yield bool(new_changes)


async def watch_catalog(app: web.Application) -> AsyncIterator[None]:
    """Watch the catalog folders while `app` runs. Append this function to ``app.cleanup_ctx``."""
    task = asyncio.create_task(CatalogWatch(app).run(), name="watch_catalog")
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

"""Logs warnings once at start-up. No warning stops the gateway, and each warning says how to fix its cause."""

import resource
from typing import Final

import structlog

from gateway.config import Config
from gateway.config.exposed import exposed_files, open_port_warning
from gateway.vault import Keyring
from gateway.vault.seal import REPLACE_KEY_ADVICE

OWN_FILES: Final = 128  # file descriptors for libraries, logs and the store
MAX_FILES: Final = 1 << 20  # no gateway needs more descriptors than this

log = structlog.get_logger(__name__)


def warn(config: Config, admin: str | None) -> None:
    """Log each warning as one event. `admin`: host that the admin port listens on; None if there is no admin port."""
    for file in exposed_files(config):
        log.warning(
            "file_open_to_others", path=str(file.path), mode=f"{file.mode:04o}", detail=file.message, fix=file.fix
        )
    if admin is not None and (warning := open_port_warning(config.server, admin)) is not None:
        log.warning("metrics_open_to_network", detail=warning.message, fix=warning.fix)
    for number, weakness in Keyring(config.store.encryption_keys).weaknesses.items():
        file_and_line = config.file_and_line("store", "encryption_keys", str(number))
        log.warning(
            "encryption_key_weak",
            where=file_and_line,
            detail=f"encryption key {number + 1} {weakness}",
            fix=REPLACE_KEY_ADVICE,
        )
    limit, needed_descriptors = descriptor_limit(), descriptors_needed(config)
    if limit is not None and limit < needed_descriptors:
        log.warning(
            "few_file_descriptors",
            limit=limit,
            needed=needed_descriptors,
            detail="calls to one slow provider may take as many (egress.limits.outstanding and waiting)",
            fix=f"LimitNOFILE=65536 (systemd), ulimits (Docker) or ulimit -n {needed_descriptors}; or lower egress.limits",
        )


def descriptor_limit() -> int | None:
    """Raise the limit of open files as far as possible, and return the limit; None if it is unlimited or unknown."""
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            soft = limit
    except (OSError, ValueError):  # a service manager can forbid both calls
        try:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        except OSError:
            return None
    return None if soft == resource.RLIM_INFINITY else soft


def descriptors_needed(config: Config) -> int:
    """Return how many file descriptors a worker needs if a provider is slow.

    A call in flight needs two descriptors, or three for an upload over TLS (docs/configuration.md). A call that waits
    for the concurrency limit needs one.
    """
    limits, pool = config.egress.limits, config.store.pool
    return 3 * limits.outstanding + limits.waiting + pool.readers + pool.writers + OWN_FILES

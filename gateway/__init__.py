"""The integration gateway as a plugin: `setup` adds its routes to an aiohttp application, `create_app` makes a new one.

docs/architecture.md shows how the packages fit together and which may import which. Modules in this folder:

    errors                                 every error that a caller can get, as one tree of exceptions
    authority                              host and port as in a URL
    secret, clock, timestamps              values that print as asterisks; the time, settable by tests; its text form
    text, resources                        text for people; the folders of catalog and templates
    private_keys                           private keys in PEM and JWK, read in a millisecond
    off_loop, part_by_part                 CPU work outside the event loop; bytes that are slow to parse, in parts
    background, pauses                     background tasks; growing pauses between attempts
    generation                             one configuration and everything built from it; replaced by a reload
    runtime, services                      everything that lives as long as the process (ADR 46); its former names
    __main__                               the command ``gateway``, also as ``python -m gateway``

Always true: functions here import their modules when called, since `gateway.app` depends on all that a host imports
first; the names in `__all__` are the plugin's public interface (docs/plugin.md), and everything else may change.
"""

from collections.abc import AsyncIterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from aiohttp import web

    from gateway.config import Config

    Configured: TypeAlias = Config | Mapping[str, Any] | str | PathLike[str]

__all__ = ["create_app", "reload", "runner", "setup", "watch"]


def setup(app: "web.Application", config: "Configured") -> None:
    """Add the gateway's routes to `app`, whose own routes stay untouched. `config`: a file, its content, or a Config.

    Raises config.Faults, with every fault of the configuration and the catalog.
    """
    from gateway.app.compose import setup as add_gateway

    add_gateway(app, config)


def create_app(config: "Configured") -> "web.Application":
    """Return an application with only the gateway, for `runner` or ``host.add_subapp("/gateway", …)``.
    Raises config.Faults."""
    from gateway.app.compose import create_app as create

    return create(config)


async def reload(app: "web.Application", config: "Configured | None" = None) -> bool:
    """Reload the gateway on `app` from `config`, or from its file as it is now; return whether that succeeded.

    If anything is wrong, it is logged and the configuration in use stays. Settings that need a restart are logged too.
    """
    from gateway.app.reload import reload as reload_app

    return await reload_app(app, config)


async def watch(app: "web.Application") -> "AsyncIterator[None]":
    """Watch the operator's catalog folders and apply changed files; use as ``app.cleanup_ctx.append(gateway.watch)``.

    `gateway serve` does this by itself. A faulty file is logged as ``file:line``, and the entry in use stays.
    """
    from gateway.app.catalog_watch import watch_catalog

    async for nothing in watch_catalog(app):
        yield nothing


def runner(
    app: "web.Application", *, drain_s: float = 30, fast_path: bool = True, lane: bool | None = None
) -> "web.BaseRunner":
    """Return our runner: exact bytes, strict framing, limits, and a drain of `drain_s` seconds. docs/plugin.md lists
    what a host loses without it.

    `fast_path`: plain proxied requests to an application of `create_app` bypass its middlewares, which cost more than
    they do for such requests; without it only the speed differs (ADR 44). `lane` is its former name.
    """
    from gateway.server import runner as run

    return run(app, drain_s=drain_s, fast_path=fast_path if lane is None else lane)

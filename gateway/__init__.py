"""The gateway as a plugin: `setup` adds its routes to an aiohttp application, `create_app` makes a new application.

docs/architecture.md shows the packages, and which package may import which other package. Modules in this folder:

    errors                                 every error that a caller can get, as one tree of exceptions
    origin                                 scheme, host and port of a URL, and their only parser
    secret, clock, timestamps              values that print as asterisks; the time, settable by tests; times as text
    text, resources                        text for people; the folders of catalog and templates
    private_keys                           private keys in PEM and JWK, read in a millisecond
    off_loop, part_by_part                 CPU work outside the event loop; bytes that are slow to parse, in parts
    background, pauses                     background tasks; growing pauses between attempts
    generation                             one configuration and everything built from it; replaced by a reload
    runtime, services                      everything that lives as long as the process (ADR 46); its former names
    __main__, worker                       the command ``gateway``; the worker process that `gateway serve` starts

Always true: the functions here import other modules only when they are called, because Python runs this file before any
other module of the gateway, and `gateway.app` imports most of them. The names in `__all__` are the plugin's public
interface (docs/plugin.md); everything else can change in any release.
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
    """Add the gateway's routes to `app`. The routes that `app` already has do not change.

    `config`: the path of a configuration file, the content of such a file, or a Config. Raises config.Faults, with
    every fault of the configuration and the catalog.
    """
    from gateway.app.compose import setup as add_gateway

    add_gateway(app, config)


def create_app(config: "Configured") -> "web.Application":
    """Return an application with only the gateway, for `runner` or ``host.add_subapp("/gateway", …)``.
    Raises config.Faults."""
    from gateway.app.compose import create_app as create

    return create(config)


async def reload(app: "web.Application", config: "Configured | None" = None) -> bool:
    """Reload the gateway on `app` from `config`; return whether the reload succeeded.

    `config`: the new configuration; None: the gateway reads its configuration file again. If the new configuration has
    a fault, the fault is logged and the configuration in use stays. Changed settings that need a restart are logged
    too.
    """
    from gateway.app.reload import reload as reload_app

    return await reload_app(app, config)


async def watch(app: "web.Application") -> "AsyncIterator[None]":
    """Watch the operator's catalog folders and apply changed files; use as ``app.cleanup_ctx.append(gateway.watch)``.

    `gateway serve` watches these folders itself. A fault in a file is logged as ``file:line``, and the entry in use
    stays.
    """
    from gateway.app.catalog_watch import watch_catalog

    async for nothing in watch_catalog(app):
        yield nothing


def runner(
    app: "web.Application", *, drain_s: float = 30, fast_path: bool = True, lane: bool | None = None
) -> "web.BaseRunner":
    """Return the gateway's runner, which passes exact bytes, checks framing strictly, and sets limits.

    docs/plugin.md lists what a host application loses without this runner. `drain_s`: at a stop, how long requests in
    flight can continue, in seconds. `fast_path`: whether plain proxied requests to an application of `create_app`
    bypass its middlewares, which is faster; the responses are the same (ADR 44). `lane`: the former name of
    `fast_path`.
    """
    from gateway.server import runner as run

    return run(app, drain_s=drain_s, fast_path=fast_path if lane is None else lane)

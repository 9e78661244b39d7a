"""What a server does without, so that a worker stays small: libraries' parts that it never uses, memory that it has freed.

Only for our own process.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import ssl
import sys
from types import ModuleType
from typing import Any


def leave_out_the_unused() -> None:
    """Before anything else is imported. Together 12 MB a worker, and a quarter of a second of every start."""
    _structlog_without_rich()
    _sqlalchemy_without_orm()
    _aiohttp_without_certificates()


def _structlog_without_rich() -> None:
    """structlog takes rich along where that is installed, for coloured tracebacks that a server never prints."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how the import system says that there is none
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


def _sqlalchemy_without_orm() -> None:
    """``sqlalchemy.ext.asyncio`` loads the ORM for its sessions, of which we have none: ADR 2 chose Core.

    Its engine is loaded alone. Whoever asks the package for more than that gets the whole of it after all.
    """
    name = "sqlalchemy.ext.asyncio"
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader = spec.loader
    package = importlib.util.module_from_spec(spec)

    def whole(wanted: str) -> Any:
        if not wanted.startswith("__"):
            vars(package).pop("__getattr__", None)
            loader.exec_module(package)
            if hasattr(package, wanted):
                return getattr(package, wanted)
        raise AttributeError(f"module {name!r} has no attribute {wanted!r}")

    sys.modules[name] = package
    engine: ModuleType = importlib.import_module(f"{name}.engine")
    for public in ("AsyncConnection", "AsyncEngine", "AsyncTransaction", "create_async_engine"):
        setattr(package, public, getattr(engine, public))
    vars(package)["__getattr__"] = whole


def _aiohttp_without_certificates() -> None:
    """aiohttp's client makes a TLS context as it is loaded, with all of the system's authorities in it.

    A server of ours has no such client: what it calls, it calls through `egress`. With an empty context, one that somebody
    made after all would trust nobody.
    """
    name = "aiohttp.connector"
    if name in sys.modules:
        return
    with_authorities = ssl.create_default_context
    ssl.create_default_context = lambda *_args, **_more: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        importlib.import_module(name)
    finally:
        ssl.create_default_context = with_authorities


def give_back_memory() -> None:
    """What the start has used and freed goes back to the system (glibc's malloc keeps it otherwise)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

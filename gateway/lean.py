"""What a server does without, so that a worker stays small: libraries' parts that it never uses, memory that it has freed.

Only for our own process.
"""

import contextlib
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, Final

from gateway.deferring import find_when_asked, lent, put_off
from gateway.offered import entry_points

# Libraries take these along for what a server does rarely or never: the system's language, dates with a zone of their own,
# the type of a file by its name.
RARE: Final = ("locale", "calendar", "mimetypes")

CLIENT: Final = tuple(
    f"aiohttp.{name}"
    for name in (
        "client",
        "client_middleware_digest_auth",
        "client_middlewares",
        "connector",
        "cookiejar",
        "formdata",
        "resolver",
        "tracing",
    )
)


def put_off_the_rare() -> None:
    """Before even the configuration is loaded; takes a millisecond itself."""
    for name in RARE:
        put_off(name)
    put_off("importlib.metadata", entry_points=entry_points)  # which is what is asked of it at a start


def leave_out_the_unused() -> None:
    """Before anything is imported but the configuration. Together 18 MB a worker, and a third of a second of every start."""
    stay_small()
    small_web()
    _sqlalchemy_without_orm()


def stay_small() -> None:
    """The same for a process that knows no database and serves nothing."""
    put_off_the_rare()
    _structlog_without_rich()
    _aiohttp_without_client()


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


def _aiohttp_without_client() -> None:
    """A process of ours has none: what it calls, it calls through `egress`.

    Its client would also make a TLS context with all of the system's authorities. Whoever asks for any of this gets it after all.
    """
    if "aiohttp" in sys.modules:
        return
    with lent("html.entities"):
        importlib.import_module("html")
    with lent("urllib.request", "email.parser", "email.policy", *CLIENT):
        package = importlib.import_module("aiohttp")
    find_when_asked(package)


def small_web() -> None:
    """After `stay_small`, in a process that serves: its server sends no files as they lie, and reads no arguments."""
    if "aiohttp.web" in sys.modules:
        return
    with lent("argparse", "tempfile", "aiohttp.web_fileresponse"):
        web = importlib.import_module("aiohttp.web")
    find_when_asked(web)


def give_back_memory() -> None:
    """What the start has used and freed goes back to the system (glibc's malloc keeps it otherwise)."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

"""Libraries' parts that a server never uses are not loaded: 17 MiB less in a worker, 11 MiB in the parent.

Only a process of ours does this, before it imports anything else. Where a library imports such a part by
``from x import y``, `lazy_imports` gives it a `Deferred` for each ``y``, which loads the real one at its first use: code
that needs it still gets it.
"""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final


class Deferred:
    """A stand-in for a name of a module that is not loaded yet; to be called, looked into, or derived from."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def real(self) -> Any:
        """Loads the module. Raises what that raises, and AttributeError for a name that it does not have."""
        return getattr(importlib.import_module(self._module), self._name)

    def __call__(self, *args: Any, **more: Any) -> Any:
        return self.real()(*args, **more)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what is looked for in every object must not load anything
            raise AttributeError(name)
        return getattr(self.real(), name)

    def __contains__(self, item: object) -> bool:
        return item in self.real()

    def __getitem__(self, key: Any) -> Any:
        return self.real()[key]

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.real())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.real(),)


class _Lent(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Deferred(self.__name__, name)


@contextmanager
def lazy_imports(*names: str) -> Iterator[None]:
    """Within, an import from the modules `names` gets Deferreds; those that are loaded already stay as they are."""
    ours = {name: _Lent(name) for name in names if name not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del sys.modules[name]


def find_when_asked(module: ModuleType) -> None:
    """Replace the Deferreds of `module`, whose names others import, by the real things, each when it is first requested."""
    late = {name: value for name, value in vars(module).items() if isinstance(value, Deferred)}
    own = vars(module).get("__getattr__")

    def find(name: str) -> Any:
        if name in late:
            found = late[name].real()
            setattr(module, name, found)
            return found
        if own is not None:
            return own(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    for name in late:
        delattr(module, name)
    vars(module)["__getattr__"] = find


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


def leave_out_the_unused() -> None:
    """Keep unused modules from loading. Call it before importing anything but the configuration."""
    stay_small()
    small_web()
    _sqlalchemy_without_orm()


def stay_small() -> None:
    """Keep modules out of a process that knows no database and serves nothing."""
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

    Its engine is loaded alone. A name beyond those loads the whole package.
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

    Its client would also make a TLS context with all of the system's authorities. What is requested is imported after all.
    """
    if "aiohttp" in sys.modules:
        return
    with lazy_imports("html.entities"):
        importlib.import_module("html")
    with lazy_imports("urllib.request", "email.parser", "email.policy", *CLIENT):
        package = importlib.import_module("aiohttp")
    find_when_asked(package)


def small_web() -> None:
    """Load aiohttp's server without what a gateway never uses (files, command line arguments), after `stay_small`."""
    if "aiohttp.web" in sys.modules:
        return
    with lazy_imports("argparse", "tempfile", "aiohttp.web_fileresponse"):
        web = importlib.import_module("aiohttp.web")
    find_when_asked(web)


def give_back_memory() -> None:
    """Give the memory that the start has used and freed back to the system (glibc's malloc keeps it otherwise)."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

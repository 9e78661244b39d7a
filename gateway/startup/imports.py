"""Skips parts of libraries that a server never uses, which saves 17 MiB in a worker and 11 MiB in the parent.

Only processes of `gateway` itself skip them, before they import anything else. If a library imports a name from such a
part with ``from x import y``, `lazy_imports` supplies a `Deferred` for ``y``, which loads the real object at its first
use: code that needs it still works.
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
    """A substitute for an object whose module is not loaded yet.

    Code can call the substitute, read its attributes, or derive a class from it.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def real_object(self) -> Any:
        """Load the module and return the real object.

        Raises the errors of the import, and AttributeError if the module has no such name.
        """
        return getattr(importlib.import_module(self._module), self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.real_object()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python looks up such names on every object, which must not load the module
            raise AttributeError(name)
        return getattr(self.real_object(), name)

    def __contains__(self, item: object) -> bool:
        return item in self.real_object()

    def __getitem__(self, key: Any) -> Any:
        return self.real_object()[key]

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.real_object())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.real_object(),)


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Deferred(self.__name__, name)


@contextmanager
def lazy_imports(*names: str) -> Iterator[None]:
    """Within the block, imports from the modules `names` get a `Deferred` for each imported name.

    Modules that are already loaded are not affected.
    """
    lazy_modules = {name: _LazyModule(name) for name in names if name not in sys.modules}
    sys.modules.update(lazy_modules)
    try:
        yield
    finally:
        for name in lazy_modules:
            del sys.modules[name]


def resolve_on_access(module: ModuleType) -> None:
    """Make `module` replace each `Deferred` by the real object when code first reads its name."""
    deferred_values = {name: value for name, value in vars(module).items() if isinstance(value, Deferred)}
    own_getattr = vars(module).get("__getattr__")

    def find_attribute(name: str) -> Any:
        if name in deferred_values:
            value = deferred_values[name].real_object()
            setattr(module, name, value)
            return value
        if own_getattr is not None:
            return own_getattr(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    for name in deferred_values:
        delattr(module, name)
    vars(module)["__getattr__"] = find_attribute


CLIENT_MODULES: Final = tuple(
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


def skip_unused_modules() -> None:
    """Skip the modules that a worker never uses.

    The caller must not import anything before this call, except the configuration.
    """
    skip_client_modules()
    load_small_web()
    _sqlalchemy_without_orm()


def skip_client_modules() -> None:
    """Skip the modules that a process without database and web server never uses."""
    _structlog_without_rich()
    _aiohttp_without_client()


def _structlog_without_rich() -> None:
    """Prevent structlog from importing rich, which formats colored tracebacks. A server prints no such tracebacks."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's mark for a missing module
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


def _sqlalchemy_without_orm() -> None:
    """Prevent ``sqlalchemy.ext.asyncio`` from loading the ORM for its sessions. The gateway uses only
    SQLAlchemy Core (ADR 2).

    Only the engine of this package is loaded. Access to any other name loads the whole package.
    """
    name = "sqlalchemy.ext.asyncio"
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader = spec.loader
    package = importlib.util.module_from_spec(spec)

    def load_completely(attribute: str) -> Any:
        if not attribute.startswith("__"):
            vars(package).pop("__getattr__", None)
            loader.exec_module(package)
            if hasattr(package, attribute):
                return getattr(package, attribute)
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    sys.modules[name] = package
    engine: ModuleType = importlib.import_module(f"{name}.engine")
    for public in ("AsyncConnection", "AsyncEngine", "AsyncTransaction", "create_async_engine"):
        setattr(package, public, getattr(engine, public))
    vars(package)["__getattr__"] = load_completely


def _aiohttp_without_client() -> None:
    """Prevent aiohttp from loading its HTTP client: the gateway's processes call other servers through `egress`.

    The client would also create a TLS context with all certificate authorities of the system. It is still loaded on
    first access.
    """
    if "aiohttp" in sys.modules:
        return
    with lazy_imports("html.entities"):
        importlib.import_module("html")
    with lazy_imports("urllib.request", "email.parser", "email.policy", *CLIENT_MODULES):
        package = importlib.import_module("aiohttp")
    resolve_on_access(package)


def load_small_web() -> None:
    """Load aiohttp's server without the parts for files and command lines, which a gateway never uses.

    Call this function after `skip_client_modules`.
    """
    if "aiohttp.web" in sys.modules:
        return
    with lazy_imports("argparse", "tempfile", "aiohttp.web_fileresponse"):
        web = importlib.import_module("aiohttp.web")
    resolve_on_access(web)


def return_freed_memory() -> None:
    """Return freed memory to the operating system.

    Otherwise, glibc's malloc keeps the memory that the process has used and freed during its start.
    """
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

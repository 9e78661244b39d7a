"""Modules that are loaded when somebody first uses them, though a library asks for them as it is loaded itself.

Two ways, for the two ways to import. `put_off` is for ``import x``: the module is there, and empty until an attribute of it is
asked for. `lent` is for ``from x import y``: while the library is loaded, every ``y`` is a `Deferred` that finds the real one
when it is used.
Only for our own process: `gateway.lean` says what is put off.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import ModuleType
from typing import Any

_waiting: dict[str, ModuleType] = {}


class Deferred:
    """What a module that is not loaded yet will have under a name; to be called, looked into, or derived from."""

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
def lent(*names: str) -> Iterator[None]:
    """Within, whoever imports from the modules `names` gets Deferreds; those that are loaded already stay as they are."""
    ours = {name: _Lent(name) for name in names if name not in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del sys.modules[name]


def find_when_asked(module: ModuleType) -> None:
    """Replace the Deferreds of `module`, whose names others import, by the real things, each when it is first asked for."""
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


def put_off(name: str, **meanwhile: Any) -> None:
    """Load the module `name` when an attribute of it is first asked for that is not in `meanwhile`.

    One that is loaded already stays as it is. Whichever threads ask first, it is loaded once, and whole before the others go on.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, module, lock = spec.loader, importlib.util.module_from_spec(spec), RLock()

    def load(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        with lock:
            if _waiting.get(name) is module:
                del _waiting[name]  # first: while it is loaded, it may ask itself for what it does not have yet
                try:
                    loader.exec_module(module)
                except BaseException:
                    _waiting[name] = module
                    raise
                if vars(module).get("__getattr__") is load:
                    del vars(module)["__getattr__"]
        try:
            return vars(module)[wanted]
        except KeyError:
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}") from None

    vars(module).update(meanwhile, __getattr__=load)
    sys.modules[name] = module
    _waiting[name] = module
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules[package], last, module)


def loaded(name: str) -> bool:
    """Whether the module `name` is there, and not only put off."""
    module = sys.modules.get(name)
    return module is not None and _waiting.get(name) is not module

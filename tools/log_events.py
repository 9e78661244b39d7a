"""Finds the log events of the code: each call such as ``log.warning("worker_died", pid=…)``."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from tools.architecture_docs import ROOT, packages

LEVELS: Final = {level: level for level in ("debug", "info", "warning", "error", "critical")} | {"exception": "error"}
LOGGERS: Final = ("log", "refusal_log")
# These modules log events that their callers name: `RefusalLog`, and `write_events` for the lines of calls.
PASS_ON: Final = ("gateway/access/client_window.py", "gateway/observe/logs.py")


@dataclass(slots=True)
class LogEvent:
    """An event with all its calls. `levels`, `fields`: in the order of the calls.

    `hidden`: whether a call adds fields that this module cannot find in the code, such as ``**about``.
    """

    name: str
    levels: dict[str, None] = field(default_factory=dict)
    fields: dict[str, None] = field(default_factory=dict)
    packages: dict[str, None] = field(default_factory=dict)
    hidden: bool = False


@cache
def log_events() -> dict[str, LogEvent]:
    """Return every event that the gateway logs, by name. Raises ValueError for a call whose event is not found."""
    # `gateway.observe.call_queue` writes the lines of calls without a logger.
    events = {"exchange": LogEvent("exchange", {"info": None}, packages={"gateway.observe": None}, hidden=True)}
    for package, path in _modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function, call, level in _calls(tree):
            names = _names(tree, function, call)
            if not names and path.relative_to(ROOT).as_posix() not in PASS_ON:
                raise ValueError(f"{path.relative_to(ROOT)}:{call.lineno}: write the event's name as a literal")
            for name in names:
                event = events.setdefault(name, LogEvent(name))
                event.levels[level] = event.packages[package] = None
                for keyword in call.keywords:
                    known = _fields(keyword, function)
                    event.hidden = event.hidden or known is None
                    event.fields.update(dict.fromkeys(known or ()))
    return events


def _modules() -> Iterator[tuple[str, Path]]:
    for name, folder in packages():
        for path in sorted(folder.glob("*.py")):
            yield name, path


def _calls(tree: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[ast.AST | None, ast.Call, str]]:
    """Yield each log call with the function around it and its level."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            receiver = node.func.value
            if getattr(receiver, "id", getattr(receiver, "attr", "")) in LOGGERS:
                yield function, node, LEVELS[node.func.attr]
        inside = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _calls(node, inside)


def _names(tree: ast.AST, function: ast.AST | None, call: ast.Call) -> Sequence[str]:
    """Return the events of a log call: its first argument or, if this is a parameter of the function, the texts that
    callers in the same module pass."""
    event = call.args[0] if call.args else None
    if isinstance(event, ast.Constant):
        return [str(event.value)]
    if not isinstance(event, ast.Name) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    parameters = [arg.arg for arg in function.args.args if arg.arg != "self"]
    if event.id not in parameters:
        return []
    place = parameters.index(event.id)
    callers = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > place)
    texts = (
        node.args[place]
        for node in callers
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == function.name
    )
    return [str(text.value) for text in texts if isinstance(text, ast.Constant)]


def _fields(keyword: ast.keyword, function: ast.AST | None) -> Sequence[str] | None:
    """Return the fields that one keyword argument adds to the line; None if they are not in the function's code."""
    if keyword.arg is not None:
        return ["exception" if keyword.arg == "exc_info" else keyword.arg]
    if isinstance(keyword.value, ast.Call) and getattr(keyword.value.func, "id", "") == "log_fields":
        return ["environment", "integration", "connection_id"]
    if not isinstance(keyword.value, ast.Name) or function is None:
        return None
    found: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [
            keyword.value.id
        ]:
            literal = node.value.body if isinstance(node.value, ast.IfExp) else node.value
            keys = literal.keys if isinstance(literal, ast.Dict) else [None]
            if not all(isinstance(key, ast.Constant) for key in keys):
                return None
            found += [str(key.value) for key in keys if isinstance(key, ast.Constant)]
    return found or None

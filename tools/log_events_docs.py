"""Generates docs/log-events.md: each log event from the code (`tools.log_events`), and what it means, from
tools/log_events.yaml."""

import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import yaml

from tools.architecture_docs import ROOT, docstring, packages
from tools.log_events import LogEvent, log_events

MEANINGS: Final = ROOT / "tools" / "log_events.yaml"
ACTIONS: Final = ("nothing", "watch", "act")
QUIET: Final = frozenset({"debug", "info"})
HEAD: Final = """\
# Log events

`make docs` generates this page from the code and from `tools/log_events.yaml`. It lists every event that the
gateway logs to stderr. [Operate](operations.md#lines-on-stderr) explains the lines of calls; to search calls, use
[the call log](call-log.md).

A line is a JSON object, or readable text if stderr is a terminal. Every line has `event`, `level` and
`timestamp`, and a line of a traced request has `trace_id`. Fields without a value are left out or null.
`exception` is a traceback. The names of events and fields are public: [the changelog](../CHANGELOG.md) lists every
change. `GATEWAY_LOG_LEVEL` sets the lowest level that is logged: `debug`, `info` (default), `warning` or `error`.
A line with a member `logger` comes from a library, for example `asyncio`.

| do | means |
|---|---|
| nothing | normal operation |
| watch | one is normal; find the cause if there are many, or if they do not stop |
| **act** | somebody must do something |

Levels from warning upwards are bold. For alerts, use [the metrics](operations.md#metrics) where a metric exists,
and else these events, all at level warning or above:
"""


@cache
def meanings() -> dict[str, dict[str, dict[str, Any]]]:
    """Return package ▸ event ▸ `means`, `do` and perhaps `more`."""
    result: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(MEANINGS.read_text(encoding="utf-8"))
    return result


def log_events_page() -> str:
    """Return the whole page. Raises KeyError for an event that is not in the code."""
    subjects = {name: docstring(folder).partition("\n")[0] for name, folder in packages()}
    urgent = [name for some in meanings().values() for name, entry in some.items() if _is_urgent(name, entry)]
    text = HEAD + "\n" + textwrap.fill(" ".join(f"`{name}`" for name in sorted(urgent)), 110) + "\n"
    for package, entries in meanings().items():
        text += f"\n## {package.removeprefix('gateway.')}\n\n{subjects[package].replace('``', '`')}\n\n"
        text += "\n".join(_table(entries)) + "\n"
    return text


def _is_urgent(name: str, entry: dict[str, Any]) -> bool:
    return str(entry["do"]).startswith("act") and not log_events()[name].levels.keys() <= QUIET


def _table(entries: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "| event | level | fields | means | do |"
    yield "|---|---|---|---|---|"
    for name, entry in entries.items():
        event = log_events()[name]
        levels = ", ".join(level if level in QUIET else f"**{level}**" for level in event.levels)
        fields = " ".join(f"`{item}`" for item in fields_of(event, entry))
        kind, _, action = str(entry["do"]).partition(": ")
        what = f"{'**act**' if kind == 'act' else kind}{f': {action}' if action else ''}"
        yield f"| `{name}` | {levels} | {fields} | {entry['means']} | {what} |"


def fields_of(event: LogEvent, entry: dict[str, Any]) -> list[str]:
    """Return the fields of the event: those in the code, then those in `more`."""
    return list(dict.fromkeys([*event.fields, *entry.get("more", ())]))

"""Options that several commands share."""

import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from gateway import resources
from gateway.text import MAX_ID_DIGITS, whole_number
from gateway.timestamps import UNITS, parse_time_or_age

DEMO: Final = Path(".gateway", "gateway.yaml")
_SPAN: Final = re.compile(r"([0-9]{1,6})([smhd])")


class Span(click.ParamType[timedelta]):
    """A time span such as ``90s``, ``15m``, ``12h`` or ``30d``."""

    name = "span"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = _SPAN.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is not a time span; write a number and a unit: 90s, 15m, 12h or 30d", param, ctx)
        return timedelta(**{UNITS[match[2]]: int(match[1])})


def parse_moment(option: str, text: str, now: datetime) -> datetime:
    """Return the time that a span before `now`, such as ``2h``, or a date means. Raises UsageError.

    `option`: the option's name for the error message, such as ``--since``.
    """
    moment = parse_time_or_age(text, now)
    if moment is None:
        raise click.UsageError(f"{option} takes a span such as 30m, 2h or 3d, or a date in ISO 8601, not {text!r}.")
    return moment


class RowId(click.ParamType[int]):
    """The id of a row in the database, `minimum` or more.

    A number with too many digits is refused, because it does not fit into the database's column. `shown_by`: the command
    that lists the ids; it is added to the error, because users give a name instead of an id.
    """

    name = "number"

    def __init__(self, minimum: int = 1, shown_by: str = "") -> None:
        self._minimum = minimum
        self._hint = f"; `{shown_by}` shows the ids" if shown_by else ""

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = whole_number(str(value))
        if number is None or number < self._minimum:
            self.fail(
                f"{value!r} must be a whole number, {self._minimum} or more, of at most {MAX_ID_DIGITS} digits{self._hint}",
                param,
                ctx,
            )
        return number


def _hint_at_the_demo(ctx: click.Context, param: click.Parameter, file: Path) -> Path:
    """Print a hint if the user passes no `-c`, but `gateway demo` has run in the current folder.

    The hint is needed because the demo's configuration is not the default file.
    """
    is_named = ctx.get_parameter_source(param.name or "") is not ParameterSource.DEFAULT
    if not is_named and DEMO.is_file() and (not file.exists() or is_reference(file)):
        state = "is the reference of all settings" if file.exists() else "does not exist"
        print(f"gateway: {file} {state}; to use the demo that was run here, add -c {DEMO}", file=sys.stderr)
    return file


def is_reference(file: Path) -> bool:
    """Return whether `file` is the shipped gateway.yaml.

    That file is a reference of all settings, and is not meant to be run.
    """
    try:
        return file.samefile(resources.file("gateway.yaml"))
    except OSError:  # a file does not exist, or this user may not read its folder
        return False


config_file = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path, readable=False),  # the loader reports an unreadable file
    default=Path("gateway.yaml"),
    show_default=True,
    metavar="FILE",
    callback=_hint_at_the_demo,
    help="The configuration file.",
)

catalog_config_file = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path, readable=False),  # the loader reports an unreadable file
    metavar="FILE",
    help="Also use the catalog folders of this configuration.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


# ── Options that select connections.

environment = click.option(
    "--environment", metavar="NAME", help="The environment, if the configuration has more than one."
)
integration = click.option("--integration", required=True, metavar="ID", help="The integration of the connections.")
optional_integration = click.option(
    "--integration", metavar="ID", help="The integration, if several have a connection with this ID."
)
all_connections = click.option("--all", "selects_all", is_flag=True, help="All connections of the integration.")
connection_ids = click.argument("connection_ids", nargs=-1, metavar="[CONNECTION]...")


def check_named(connection_ids: tuple[str, ...], selects_all: bool) -> None:
    """Raise UsageError if the user names connections and gives ``--all``, or does neither."""
    if bool(connection_ids) == selects_all:
        raise click.UsageError("Name connections or give --all, not both.")

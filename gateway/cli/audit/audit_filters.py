"""Options that several audit commands share."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.cli.options import RowId, parse_moment
from gateway.records.audit import AuditAction

if TYPE_CHECKING:
    from gateway.records.audit import AuditFilter

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        "--since", metavar="WHEN", help="Only since this time: 10m, 2h, 3d, or a date such as 2026-01-31T08:00+00:00."
    ),
    click.option("--until", metavar="WHEN", help="Only before this time."),
    click.option(
        "--action",
        type=click.Choice([action.value for action in AuditAction]),
        metavar="ACTION",
        help="Only this action, such as credential.read.",
    ),
    click.option("--environment", metavar="NAME", help="Only this environment."),
    click.option("--integration", metavar="ID", help="Only this integration."),
    click.option("--connection", metavar="ID", help="Only this connection; it may be deleted."),
    click.option(
        "--key",
        type=RowId(shown_by="gateway keys list"),
        metavar="NUMBER",
        help="Only actions with the minted key of this id.",
    ),
    click.option("--end-user", metavar="ID", help="Only actions for this end user; needs --environment."),
)


def filters(command: F) -> F:
    """Add the options that filter records to `command`. The command receives their values as keyword arguments."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def build_filter(options: Mapping[str, Any], **more_fields: Any) -> "AuditFilter":
    """Return the filter for the command's options.

    `options`: the values of the options by name. `more_fields`: further fields of the filter. Raises UsageError.
    """
    from gateway.records.audit import AuditFilter
    from gateway.records.filters import single_or_any_set

    if options["end_user"] and not options["environment"]:
        raise click.UsageError(
            "--end-user needs --environment: the same id may be another person in another environment."
        )
    return AuditFilter(
        environment=options["environment"],
        since=parse_time(options["since"], "since"),
        until=parse_time(options["until"], "until"),
        action=options["action"],
        key_ids=single_or_any_set(options["key"]),
        integration_id=options["integration"],
        connection_id=options["connection"],
        end_user_id=options["end_user"],
        **more_fields,
    )


def parse_time(text: str | None, option: str) -> datetime | None:
    """Return the time that a span such as ``2h`` or a date means. Return None if `text` is None.

    `option`: the option's name for the error message. Raises UsageError.
    """
    from gateway import clock

    return None if text is None else parse_moment(f"--{option}", text, clock.now())

"""A key in words, for whoever made it and for the list."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gateway.nearest import did_you_mean
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.records.access import Key, Limits
    from gateway.services import Services


def limits(key: "Key") -> Iterator[tuple[str, str]]:
    """What it is held to: a name, and the values in words."""
    for one in key.limits:
        for name, values in one.as_json().items():
            yield name, ", ".join(_words(values))
    if key.rate is not None:
        yield "rate", f"{key.rate:,} a minute"
    if key.budget is not None:
        yield "budget", f"{counted(key.budget, 'call')} in all"


def strangers(services: "Services", environment: str, asked: "Limits") -> Iterator[str]:
    """A sentence for each integration that the limits name and that is not there. It may come later, so it is no fault."""
    of_connections = (one.partition("/")[0] for one in asked.connections)
    known = [one.integration_id for one in services.integrations.of(environment)]
    for name in dict.fromkeys((*asked.integrations, *of_connections)):
        if name != "*" and not services.integrations.has(environment, name):
            hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
            yield (
                f"environment '{environment}' has no integration '{name}'{hint}. "
                "The key opens nothing there until one of that name is made"
            )


def _words(values: Any) -> list[str]:
    return [f"{name}={text}" for name, text in values.items()] if isinstance(values, dict) else list(values)

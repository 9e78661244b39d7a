"""What was found, and what would mend it."""

from dataclasses import dataclass
from typing import Any, Literal

from gateway.cli.refusal import placed

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` names the subject. `where` is ``gateway.yaml:17`` or a file, `fix` the next step, unless `message` names it
    as those of `gateway check` do; neither stands by an ok.

    Nothing here ever holds a secret.
    """

    level: Level
    check: str
    message: str
    where: str = ""
    fix: str = ""
    integration: str = ""

    def as_json(self) -> dict[str, Any]:
        """Empty members are left out; `where` is split into `file` and `line` too, as in the faults of `check`."""
        told = {"level": self.level, "check": self.check, "integration": self.integration, **placed(self)}
        return {name: value for name, value in (told | {"fix": self.fix}).items() if value != ""}


def ok(check: str, message: str, *, integration: str = "") -> Finding:
    return Finding("ok", check, message, integration=integration)

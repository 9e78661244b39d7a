"""The result of one scenario: the state of its connections, and the results of the calls."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class ScenarioResult:
    """The result of a scenario. `calls`: number of calls by status or exception. `reported`: losses with the reason
    `rotation_lost`.

    `silent`: lost connections with any other reason. `unexpected`: losses that the scenario does not allow.
    """

    scenario: str
    refreshes: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    reported: int = 0
    silent: int = 0
    unexpected: list[str] = field(default_factory=list)

    def add(self, connection_id: str, status: int, reason: str | None, *, may_be_lost: bool) -> None:
        """Count the final state of one connection.

        `status`: of the last call or forced refresh. `reason`: of the connection's state. `may_be_lost`: whether the
        scenario allows that this connection is lost and that the gateway reports the loss.
        """
        if status == 200:
            return
        is_reported = status == 424 and reason == "rotation_lost"
        self.reported, self.silent = self.reported + is_reported, self.silent + (not is_reported)
        if not (is_reported and may_be_lost):
            self.unexpected.append(f"{connection_id}: {status}, {reason}")

    @property
    def fine(self) -> bool:
        return not self.unexpected

    def __str__(self) -> str:
        failed = Counter({status: count for status, count in self.calls.items() if status != "200"})
        kinds = ", ".join(f"{count} x {status}" for status, count in failed.most_common())
        return (
            f"{'ok ' if self.fine else 'BAD'} {self.scenario:<42} {self.refreshes:>5} refreshes, "
            f"{self.reported + self.silent} lost, {self.reported} reported, {self.silent} silent; "
            f"{self.calls.total()} calls, {failed.total()} failed{f' ({kinds})' if kinds else ''}"
            f"{f' UNEXPECTED: {self.unexpected}' if self.unexpected else ''}"
        )

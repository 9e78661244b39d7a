"""Which credentials this process has sent for, so that no second attempt sends one whose reply it cannot have read yet."""

import json
import math

from gateway import clock
from gateway.journal import Entry

Credential = tuple[str, int]  # row and version


class Sent:
    """An attempt's call is under way, or was answered, until the attempt is released."""

    def __init__(self) -> None:
        self._answered: dict[Credential, dict[str, float]] = {}  # attempt ▸ when (monotonic), infinity while under way
        self._credentials: dict[str, Credential] = {}

    def unread(self, entry: Entry, asked_at: float) -> bool:
        """Whether another attempt at the same credential is under way, or was answered after `asked_at` (monotonic)."""
        others = self._answered.get(_credential(entry), {})
        return any(attempt != entry.attempt and at > asked_at for attempt, at in others.items())

    def under_way(self, entry: Entry) -> None:
        credential = self._credentials[entry.attempt] = _credential(entry)
        self._answered.setdefault(credential, {})[entry.attempt] = math.inf

    def answered(self, entry: Entry) -> None:
        if entry.attempt in self._credentials:
            self._answered[self._credentials[entry.attempt]][entry.attempt] = clock.monotonic()

    def forget(self, attempt: str) -> None:
        """There is no reply of it to read, or it is released. An unknown attempt is ignored."""
        credential = self._credentials.pop(attempt, None)
        if credential is not None:
            attempts = self._answered[credential]
            del attempts[attempt]
            if not attempts:
                del self._answered[credential]


def _credential(entry: Entry) -> Credential:
    about = json.loads(entry.about)
    return about["row"], about["version"]

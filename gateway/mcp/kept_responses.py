"""Keeps whole responses for some minutes, if the tool results show only a part of them.

A kept response can be read only with the key that made the call. The memory is limited.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from gateway import clock

KEPT_S: Final = 600.0
MAX_BYTES: Final = 64 << 20  # maximum for all keys of one worker
SHARE_BYTES: Final = 16 << 20  # maximum for one key


@dataclass(frozen=True, slots=True)
class KeptResponse:
    share: str
    media_type: str
    body: bytes
    ends_at: float


class KeptResponses:
    """Keeps whole responses for `KEPT_S` seconds; removes the oldest responses earlier if memory is short."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KeptResponse] = OrderedDict()
        self.size = 0

    def keep(self, share: str, media_type: str, body: bytes) -> str | None:
        """Keep `body` and return its id for `get`; None if `body` is larger than the maximum for one key.

        `share`: identifies the key (`Caller.share`).
        """
        if len(body) > SHARE_BYTES:
            return None
        self._sweep()
        own = sum(len(kept.body) for kept in self._kept.values() if kept.share == share)
        for response_id, kept in list(self._kept.items()):
            if own + len(body) > SHARE_BYTES and kept.share == share:
                own -= len(kept.body)
                self._drop(response_id)
        while self._kept and self.size + len(body) > MAX_BYTES:
            self._drop(next(iter(self._kept)))
        response_id = secrets.token_urlsafe(16)
        self._kept[response_id] = KeptResponse(share, media_type, body, clock.monotonic() + KEPT_S)
        self.size += len(body)
        return response_id

    def get(self, share: str, response_id: str) -> KeptResponse | None:
        """Return the kept response; None if this key has no kept response with this id."""
        self._sweep()
        found = self._kept.get(response_id)
        return found if found is not None and found.share == share else None

    def _sweep(self) -> None:
        now = clock.monotonic()
        while self._kept and next(iter(self._kept.values())).ends_at <= now:
            self._drop(next(iter(self._kept)))

    def _drop(self, response_id: str) -> None:
        self.size -= len(self._kept.pop(response_id).body)

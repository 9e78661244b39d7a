"""Keeps whole responses for some minutes, if the tool results show only a part of them.

A kept response can be read only with the key that made the call. The memory is limited.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gateway import clock

KEPT_S: Final = 600.0
MAX_BYTES: Final = 64 << 20  # maximum for all keys of one worker
SHARE_BYTES: Final = 16 << 20  # maximum for one key
ENTRY_BYTES: Final = 1024  # counted for each response in addition to its body, so that small ones are limited too


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """A whole response.

    `share`: identifies the key (`Caller.share`). `connection`: the connection of the call, ``INTEGRATION/CONNECTION``.
    `ends_at`: when the response is removed, in monotonic seconds.
    """

    share: str
    connection: str
    media_type: str
    body: bytes
    ends_at: float


class KeptResponses:
    """Keeps whole responses for `KEPT_S` seconds; removes the oldest responses earlier if memory is short.

    `size`: the bytes that are counted now. The cost of a call does not depend on the number of kept responses.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KeptResponse] = OrderedDict()
        self._shares: dict[str, _Share] = {}
        self.size = 0

    def keep(self, share: str, connection: str, media_type: str, body: bytes) -> str | None:
        """Keep `body` and return its id for `get`; None if `body` is larger than the maximum for one key.

        `share`: identifies the key (`Caller.share`). `connection`: the connection of the call.
        """
        size = len(body) + ENTRY_BYTES
        if size > SHARE_BYTES:
            return None
        self._sweep()
        while (key_share := self._shares.get(share)) is not None and key_share.size + size > SHARE_BYTES:
            self._drop(next(iter(key_share.ids)))
        while self._kept and self.size + size > MAX_BYTES:
            self._drop(next(iter(self._kept)))
        response_id = secrets.token_urlsafe(16)
        self._kept[response_id] = KeptResponse(share, connection, media_type, body, clock.monotonic() + KEPT_S)
        key_share = self._shares.setdefault(share, _Share())
        key_share.ids[response_id] = None
        key_share.size += size
        self.size += size
        return response_id

    def get(self, share: str, response_id: str) -> KeptResponse | None:
        """Return the kept response; None if this key has no kept response with this id."""
        self._sweep()
        response = self._kept.get(response_id)
        return response if response is not None and response.share == share else None

    def _sweep(self) -> None:
        now = clock.monotonic()
        while self._kept and next(iter(self._kept.values())).ends_at <= now:
            self._drop(next(iter(self._kept)))

    def _drop(self, response_id: str) -> None:
        response = self._kept.pop(response_id)
        size, key_share = len(response.body) + ENTRY_BYTES, self._shares[response.share]
        self.size -= size
        key_share.size -= size
        del key_share.ids[response_id]
        if not key_share.ids:
            del self._shares[response.share]


@dataclass(slots=True)
class _Share:
    """The responses kept for one key: their ids, the oldest first, and the bytes that are counted for them."""

    ids: OrderedDict[str, None] = field(default_factory=OrderedDict)
    size: int = 0

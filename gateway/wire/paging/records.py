"""The records of one page, as the bytes they came in."""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_PIECE_CHARS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Records:
    """The items of one array of `text`: `bounds` are start and end of each in turn. `path`: where the array lies."""

    text: str
    path: str
    bounds: "array[int]"

    def __len__(self) -> int:
        return len(self.bounds) // 2

    def __iter__(self) -> Iterator[bytes]:
        """Each as the bytes it came in, a line break between its parts taken out (inside texts there is none)."""
        for start, end in zip(self.bounds[::2], self.bounds[1::2], strict=True):
            record = self.text[start:end].encode("latin-1")
            yield record.translate(None, b"\r\n") if b"\n" in record or b"\r" in record else record

    @property
    def hold_objects(self) -> bool:
        return bool(self.bounds) and self.text[self.bounds[0]] == "{"

    @property
    def digest(self) -> str:
        """Of all of them as they stand in the page."""
        hashing = hashlib.blake2b(digest_size=16)
        if self.bounds:
            for start in range(self.bounds[0], self.bounds[-1], _PIECE_CHARS):
                hashing.update(self.text[start : min(start + _PIECE_CHARS, self.bounds[-1])].encode("latin-1"))
        return hashing.hexdigest()


NO_RECORDS: Final = Records("", "", array("I"))

"""The configuration that workers run, with its catalog, in memory that they share: a replacement starts from it.

So it is the same as the others', also where the files are broken or newer by now.
"""

import io
import os
import pickle
from typing import Any

from gateway.catalog.load import Catalog
from gateway.config import Config
from gateway.secret import Secret


class _Pickler(pickle.Pickler):
    """Takes secrets too, which nothing else pickles: this goes from one of our processes to the next, and to no disk."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if isinstance(value, Secret) else NotImplemented


def write(descriptor: int, config: Config, catalog: Catalog) -> None:
    """Raises OSError."""
    held = io.BytesIO()
    _Pickler(held, pickle.HIGHEST_PROTOCOL).dump((config, catalog))
    os.ftruncate(descriptor, 0)
    view = held.getbuffer()
    at = 0
    while at < len(view):
        at += os.pwrite(descriptor, view[at:], at)


def read(descriptor: int) -> tuple[Config, Catalog]:
    size = os.fstat(descriptor).st_size
    config, catalog = pickle.loads(os.pread(descriptor, size, 0))  # noqa: S301 (written by a worker of ours)
    return config, catalog

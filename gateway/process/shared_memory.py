"""Memory that the parent and its workers share through unnamed open files: each worker gets their descriptors."""

import os
import tempfile


class SharedMemory:
    """The shared files. `configurations`: two pickled configurations written by workers (`serving_worker.write`), the
    one in use and the next. `board`: the pages of metrics. The parent never reads a configuration, which holds secrets.
    """

    def __init__(self) -> None:
        self.configurations = (_open_unnamed_file("configuration-0"), _open_unnamed_file("configuration-1"))
        self.board = _open_unnamed_file("metrics")

    @property
    def descriptors(self) -> list[int]:
        return [*self.configurations, self.board]


def _open_unnamed_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())

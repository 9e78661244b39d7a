"""Makes memory that the parent and its workers share: unnamed open files, of which each worker gets the descriptors."""

import os
import tempfile


class SharedMemory:
    """The shared files.

    `configurations`: two files with pickled configurations: the current configuration and the next one. Workers write
    these files (`serving_worker.write_configuration`). The parent never reads them, because they contain secrets.
    `metrics_file`: a file with the metrics of all processes.
    """

    def __init__(self) -> None:
        self.configurations = (_open_unnamed_file("configuration-0"), _open_unnamed_file("configuration-1"))
        self.metrics_file = _open_unnamed_file("metrics")

    @property
    def descriptors(self) -> list[int]:
        return [*self.configurations, self.metrics_file]


def _open_unnamed_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())

"""How a command ends on faults in files: a line each on stderr, in the form that editors and CI jump to, and exit code 1."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.catalog.faults import CatalogFaults
from gateway.config import Faults


@contextmanager
def faults_end_the_command() -> Iterator[None]:
    """Around whatever reads a configuration or a catalog."""
    try:
        yield
    except (Faults, CatalogFaults) as error:
        print(error, file=sys.stderr)
        sys.exit(1)

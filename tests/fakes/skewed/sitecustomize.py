"""Shifts the clock of processes that `tests.fakes.processes` starts, by PYTHON_TEST_SKEW_S seconds if this variable is
set.
"""

import os
import sys
from datetime import timedelta

if (_skew_s := os.environ.get("PYTHON_TEST_SKEW_S")) and "gateway" in " ".join(sys.orig_argv):
    from gateway import clock

    _machine, _ahead = clock.machine, timedelta(seconds=float(_skew_s))
    clock.machine = lambda: _machine() + _ahead

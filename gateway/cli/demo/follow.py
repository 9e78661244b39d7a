"""Run a module as ``python -m`` does, but end with the parent process: ``… follow PARENT_PID MODULE [ARGUMENT…]``.

Without this, a demo that is killed by SIGKILL would leave two processes behind that hold its ports. This works on
Linux; elsewhere the module runs as usual. The module itself asks for the signal, since code between fork and exec is
not safe if the parent has threads.
"""

import ctypes
import os
import runpy
import signal
import sys

from gateway.startup.collector import collect_rarely

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, module = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)
    sys.argv = sys.argv[2:]
    collect_rarely()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

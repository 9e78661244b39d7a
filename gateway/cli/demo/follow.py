"""Runs a module as ``python -m`` does, but ends with the parent: ``… follow PARENT_PID MODULE [ARGUMENT…]``.

Without this module, a demo that is killed by SIGKILL would leave two processes that use its ports. On Linux, the kernel
sends this process SIGTERM when its parent ends; on other systems, the module runs as usual. The signal is requested
after exec, because a parent with threads must not run such code between fork and exec.
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

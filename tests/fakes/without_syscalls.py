"""``python -m tests.fakes.without_syscalls GROUP MODULE ARGUMENT…``: run MODULE without a group of system calls.

This works like `SystemCallFilter=~@group` with `SystemCallErrorNumber=EPERM` in systemd. It runs only on Linux, on
x86-64 and ARM64.
"""

import ctypes
import errno
import platform
import runpy
import struct
import sys
from collections.abc import Collection
from typing import Final

# The system calls that `systemd-analyze syscall-filter @resources` lists, by number.
RESOURCES: Final = {
    "x86_64": (141, 142, 144, 160, 203, 237, 238, 251, 256, 279, 314, 450),
    "aarch64": (30, 118, 119, 122, 140, 164, 235, 237, 238, 239, 274, 450),
}
GROUPS: Final = {"resources": RESOURCES.get(platform.machine()) if sys.platform == "linux" else None}

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # instructions of classic BPF: load a word, jump if equal, return
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def refuse(numbers: Collection[int]) -> None:
    """Make these system calls fail with EPERM, in this process and in all children that it starts later."""
    steps = [(LOAD, 0, 0, 0)]
    steps += [(EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "no system call filter here")


if __name__ == "__main__":
    group, module = sys.argv[1:3]
    refuse(GROUPS[group] or ())
    sys.argv[:] = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

"""``gateway demo``: the gateway with its built-in fake provider, and a connection that already works.

    demo_command.py  ``gateway demo``: the gateway with its built-in fake provider, and a connection that already
                     works.
    demo_run.py      The demo from its first process to its last signal.
    demo_folder.py   The demo's folder: configuration, keys, the sandbox's catalog entry, and a lock, since one demo
                     at a time uses it.
    child.py         One of the demo's two processes: started, awaited, watched, and ended.
    follow.py        Runs a module as ``python -m`` would, but ends with its parent: ``… follow PARENT_PID MODULE
                     [ARGUMENT…]``.
    customer.py      The demo's own application: it calls the gateway's public API as a customer would, and sends
                     its user to connect.

Always true: both processes end with the command.
"""


class DemoFailed(Exception):
    """The demo cannot go on; the text is all that the person at the terminal needs."""

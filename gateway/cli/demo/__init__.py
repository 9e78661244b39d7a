"""``gateway demo``: the gateway with its built-in fake provider, and a connection that already works.

    demo_command   the command and its options
    demo_run       the demo from its first process to its last signal
    demo_folder    its folder: configuration, keys, the sandbox's catalog entry, and a lock for one demo at a time
    child          one of the two processes: started, awaited, watched, ended
    follow         runs a module so that it ends with its parent: ``… follow PARENT_PID MODULE [ARGUMENT…]``
    customer       the demo's application: it calls the public API as a customer would, and connects its user

Always true: both processes end with the command, however it ends.
"""


class DemoFailed(Exception):
    """The demo cannot go on; the text is all that the person at the terminal needs."""

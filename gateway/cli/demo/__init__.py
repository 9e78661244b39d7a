"""``gateway demo``: the gateway with its built-in fake provider, and a connection that already works.

    demo_command   the command and its options
    demo_run       runs the demo: starts both processes, connects the demo user, waits for a signal
    demo_folder    its folder: configuration, keys, the sandbox's catalog entry, and a lock for one demo at a time
    child          one of the two processes: started, awaited, watched, stopped
    follow         runs a module so that it ends with its parent: ``… follow PARENT_PID MODULE [ARGUMENT…]``
    customer       the demo's application: it calls the public API as a customer would, and connects its user

Always true: both processes end with the command, however it ends.
"""


class DemoFailed(Exception):
    """Raised if the demo cannot continue; the text is the complete message for the user."""

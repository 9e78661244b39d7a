"""``gateway demo``: the gateway with its built-in fake provider, and a connection that already works.

    demo_command   the command and its options
    demo_run       runs the demo: starts both processes, connects the demo user, waits for a signal
    demo_folder    the demo's folder: configuration, keys, the sandbox's catalog entry, and a lock
    child          starts one of the two processes, waits until it is ready, watches it and stops it
    follow         runs a module so that it ends with its parent: ``… follow PARENT_PID MODULE [ARGUMENT…]``
    customer       the demo's application: calls the public API as a customer would, and connects the demo user

Always true: when the command ends, for any reason, both processes end too.
"""


class DemoFailed(Exception):
    """The demo cannot continue. The text is the complete message for the user."""

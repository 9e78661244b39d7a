"""What a process of ours does to itself before anything else runs.

    hardening.py     What the process denies itself, so that the secrets in its memory stay there: no core dumps, no
                     debugger.
    imports.py       What a server does without, so that a worker stays small: modules loaded at their first use or
                     never.
    entry_points.py  The entry points of a group, without loading importlib.metadata where no installed package has
                     any: it weighs two megabytes.

Always true: nothing here is imported by a host that uses the gateway as a plugin, but `entry_points`.
"""

"""What a process of ours does to itself before anything else runs.

    hardening.py     What the process denies itself, so that the secrets in its memory stay there: no core dumps, no
                     debugger.
    imports.py       Parts of libraries that a server never uses are not loaded.

Always true: nothing here is imported by a host that uses the gateway as a plugin.
"""

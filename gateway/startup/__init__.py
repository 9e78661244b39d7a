"""Prepares a process of ours before anything else runs.

    hardening   no core dumps, no debugger: the secrets in memory stay there
    collector   the garbage collector, which looks rarely while a process starts
    imports     parts of libraries that a server never uses are not loaded, so that a worker stays small

`imports` has the figure behind each part that it leaves out.

Always true: nothing here is imported by a host that uses the gateway as a plugin.
"""

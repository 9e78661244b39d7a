"""Prepares a process of ours before anything else runs.

    hardening   no core dumps, no debugger: the secrets in memory stay there
    collector   the garbage collector, which runs rarely while a process starts
    imports     skips parts of libraries that a server never uses, so that a worker stays small

`imports` states the saving of each part that it skips.

Always true: no host application that uses the gateway as a plugin imports this package.
"""

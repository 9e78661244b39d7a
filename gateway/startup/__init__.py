"""Prepares a process of the gateway before anything else runs.

    hardening   keeps secrets inside the process's memory: no core dumps, no debugger
    collector   makes the garbage collector run rarely while a process starts
    imports     skips parts of libraries that a server never uses, so that a worker needs less memory

`imports` states how much memory a worker and the parent save.

Always true: no host application that uses the gateway as a plugin imports this package.
"""

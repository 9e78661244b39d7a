"""The side-by-side benchmark: the gateway and other proxies, measured in turns in one run over the loopback address.

`make bench` runs it, docs/performance.md explains it. It starts every server itself, on a free port and in a session of
its own, and stops only the servers that it started. It uses only the standard library, so it can measure any checkout
that can run.
"""

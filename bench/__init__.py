"""The side-by-side benchmark: ours and other proxies in turns, in one run, over the loopback address.

`make bench` runs it, docs/performance.md explains it. It starts every server itself, on free ports and in a session of
its own, and ends exactly those. Standard library only, so that it measures any checkout that can run.
"""

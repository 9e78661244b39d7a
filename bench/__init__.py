"""The side-by-side benchmark: measures the gateway and other proxies alternately in one run, over the loopback address.

`make bench` runs the benchmark, and docs/performance.md explains it. The benchmark starts every server itself, on a
free port and in its own session, and stops only these servers. It uses only the standard library, so it can measure any
checkout that can run.
"""

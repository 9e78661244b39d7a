"""The processes of `gateway serve`: a small parent, which is the one that the operator started, and its workers (ADR 41).

    start.py       what the command does first: start the first worker, then load the rest of the parent
    parent.py      the parent: sockets, signals, token exchanges for all workers, their end
    workers.py     which workers live, who replaces the dead and when
    reloads.py     one reload of the configuration for all workers, at SIGHUP or for a missing key
    memory.py      memory that all of them share: accepted configurations, metrics
    handed_on.py   the accepted configuration in it, from which a replacement starts
    admin.py       /health, /ready and /metrics on `server.admin_port`, answered by the parent
    sockets.py     listening sockets, opened here or handed over (systemd)
    terminal.py    whether the terminal that we were started from is gone

The parent does token exchanges and writes the refresh journal (`gateway.refresh`, `gateway.journal`), so that a worker's
death loses nothing. It has neither the configuration nor a key of the store: workers load those and say what it needs.
A worker's end is `gateway/server/worker.py`. Signals go to the parent; workers follow it by a channel (`gateway.channel`),
and end when it is gone.
"""

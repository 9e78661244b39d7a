"""The processes of `gateway serve`: a small parent, which the operator started, and its workers.

    start.py           How `gateway serve` starts: the first worker at once, and while that loads, what the parent
                       needs.
    parent.py          The parent of `gateway serve`: opens the sockets, keeps its workers alive, exchanges tokens
                       for them, passes signals on.
    workers.py         Which workers live. A dead one is replaced at its own place, after a pause where lives are
                       short.
    handshake.py       The first messages of a channel, before an event loop runs: JSON objects, each behind its
                       length (4 bytes, big-endian).
    channel.py         Messages between the parent and a worker over a socket pair, once their event loops run;
                       `handshake` has what comes before.
    shared_memory.py   Memory that the parent and its workers share by open files without a name: each worker gets
                       their descriptors.
    reload_workers.py  One reload for all workers: one of them reads and checks the files, the others take over what
                       it has accepted.
    sockets.py         Listening sockets: made here, or handed over by who started us (systemd's socket activation,
                       and the like).
    admin.py           `server.admin_port`, served by the parent: /health, /ready and /metrics. No key, not public.

Always true: the parent loads no database, no web framework and no catalog; it alone calls token endpoints.
"""

"""The processes of `gateway serve`: a small parent, which the operator started, and its workers (ADR 41).

The parent opens sockets and calls token endpoints for refreshes. The workers handle requests. Read in this order:

    start            starts `gateway serve`: spawns one worker, and loads the parent's modules meanwhile
    parent           runs the parent: sockets, token exchanges, signals, replacement of workers
    workers          keeps the workers alive; replaces dead workers, with pauses if they die soon after their start
    handshake        sends the first messages of a channel, before an event loop runs
    channel          sends messages between parent and worker after the handshake
    shared_memory    opens the memory that parent and workers share, for example for metrics
    reload_workers   reloads after SIGHUP: one worker checks the files, the others apply the accepted configuration
    sockets          opens listening sockets, or takes over sockets from systemd
    admin            serves `server.admin_port`: /health, /ready and /metrics

Always true: the parent loads no database, no web framework and no catalog, and has no key of the store. Under `gateway
serve` only the parent calls token endpoints for refreshes. Workers exchange authorization codes and get first tokens.
"""

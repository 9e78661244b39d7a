"""The processes of `gateway serve`: a small parent, which the operator started, and its workers (ADR 41).

The parent opens sockets and calls token endpoints for refreshes; workers handle requests. Read in this order:

    start            how `gateway serve` starts: first one worker, then the parent's own parts while that worker loads
    parent           the parent: sockets, token exchanges, signals, replacement of workers
    workers          which workers are alive; replaces dead ones, with pauses if they die soon after their start
    handshake        the first messages of a channel, before an event loop runs
    channel          messages between parent and worker after the handshake
    shared_memory    memory that parent and workers share, such as metrics
    reload_workers   SIGHUP: one worker reads and checks the files, the others apply the accepted configuration
    sockets          listening sockets: opened here, or passed by systemd
    admin            `server.admin_port`: /health, /ready and /metrics

Always true: the parent loads no database, no web framework and no catalog, and has no key of the store; under `gateway
serve` only the parent calls token endpoints for refreshes; workers exchange authorization codes and get first tokens.
"""

"""The processes of `gateway serve`: a small parent, which the operator started, and its workers (ADR 41).

The parent opens sockets and calls token endpoints for refreshes; workers serve. Read in this order:

    start            how `gateway serve` starts: the first worker at once, then the parent's own parts
    parent           the parent: sockets, token exchanges, signals, replacement of workers
    workers          which workers live; a dead one is replaced, after a pause if lives are short
    handshake        the first messages of a channel, before an event loop runs
    channel          messages between parent and worker after that
    shared_memory    memory that parent and workers share, such as metrics
    reload_workers   SIGHUP: one worker reads and checks the files, the others take over what it accepted
    sockets          listening sockets: opened here, or handed over by systemd
    admin            `server.admin_port`: /health, /ready and /metrics

Always true: the parent loads no database, no web framework and no catalog, and has no key of the store; under `gateway serve`
it alone calls token endpoints for refreshes; codes and first tokens are the workers'.
"""

"""Our own HTTP API: one file an area, handlers and the models of their bodies and answers.

    answers.py             What our API answers, as models.
    request_body.py        Reads what callers send to our API: JSON bodies and queries, every fault named at once.
    shapes.py              The members that several bodies of our API share (api-contract 0.6).
    addressed.py           Which integration or connection an address names, by the rules of api-contract 0.6.
    narrow.py              What keys that were minted may not fix for a connection, since it would divert what is
                           another's: settings, and with them
    connections.py         Connections: list, read, change, delete.
    connection_json.py     A connection and its diagnosis as our API and the command line show them.
    connection_import.py   Credentials that the customer already has become connections (api-contract 1.4).
    integrations.py        Integrations: list, read, make, change, delete (api-contract 1.3). Those that
                           gateway.yaml declares can only be read.
    integration_shapes.py  What may be sent to make or change an integration, and how one is shown.
    connect_endpoints.py   Connect sessions: made by the customer's back end, shown to the page and to the back end.
    connect_socket.py      The WebSocket on which the browser that opened a window learns the outcome.
    typed_in.py            Connecting without a redirect: the end user's browser posts what was typed in, under its
                           connect session (api-contract 1.7).
    client_metadata.py     Who we are, for authorization servers that take the address of this document for a client
                           ID (MCP authorization).
    keys.py                Keys of the environment: mint, list, revoke (api-contract 1.8).
    providers.py           The read-only catalog: providers and their logos.
    environment.py         An environment's own: the key that signs its events, its variables.
    webhooks.py            Where providers send their webhooks.
    health.py              Whether the process lives, and whether it serves: for load balancers, without a key.
    method_options.py      ``OPTIONS`` on our own API: which methods there are (RFC 9110 §9.3.7). A browser's
                           preflight is answered before this.

Always true: every fault of a body is named at once; `answers` has the models of what is returned.
"""

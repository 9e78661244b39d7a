"""All connections to providers, for proxied calls, token endpoints and scripts: each address is checked first.

The gateway has its own connections instead of a client library (ADR 11), so that bytes pass unchanged and one place
checks all addresses. Read the files in this order:

    client                sends requests; streams responses for the proxy, reads them whole for token endpoints
    guard                 decides which addresses may be reached: the public internet by https, and allowed networks
    dial, tls             open a connection to an origin within one time limit; TLS certificates are always verified
    pool                  keeps the connections to one origin; the connection that became idle last is used first
    provider_connection   sends a request on one connection, reads the response, decides whether to keep the connection
    provider_exchange     parses responses strictly; has the interface for the callers of this package
    limits                limits the calls to each origin: concurrency limit, circuit breaker and retry budget
    write_batch           writes small messages of many connections together at the end of an event loop iteration
    page_memory           limits the memory for the pages of all paged calls
    egress_errors         defines the errors of this package; other packages turn them into errors for the caller

Always true: `guard` checks each address immediately before a connection to it is opened, directly or through the
outbound proxy. Only the address of the proxy itself is not checked. Redirects are not followed, and cookies are not
kept. Only the operator's command `gateway connections import` calls Nango without this package (`moving/peer.py`).
"""

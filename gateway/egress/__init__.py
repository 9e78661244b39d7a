"""The one way out: guarded connections to providers, for proxied calls, token endpoints and scripts alike.

Own connections instead of a client library (ADR 11): exact bytes, one place that admits addresses. Read in this order:

    client                requests to providers: streamed for the proxy, whole for token endpoints and scripts
    guard                 which addresses may be dialled: the public internet by https, and what the operator opened
    dial, tls             from an origin to an open connection, within one time limit; TLS, always verified
    pool                  the connections to one origin, last in first out
    provider_connection   one connection: a request out, its answer in, and whether another may follow
    provider_exchange     one request and its answer: read strictly from a connection's bytes, and as the caller of this
                          package sees them
    limits                for each origin: concurrency limit, circuit breaker, retry budget
    write_batch           small messages of many connections, written together at the end of the loop's turn
    page_memory           one bound for the pages that all paged calls hold
    egress_errors         what can go wrong, before anyone decides what the caller gets

Always true: no request leaves for an address that `guard` has not admitted at that moment, directly or through the outbound
proxy, which alone is dialled without the guard; redirects are answers; no cookie is kept. Only the operator's own command
`gateway connections import` calls Nango without this package (`moving/peer.py`).
"""

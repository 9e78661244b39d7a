"""All connections to providers, for proxied calls, token endpoints and scripts: each address is checked first.

Own connections instead of a client library (ADR 11): exact bytes, and one place that checks addresses. Reading order:

    client                requests to providers: streamed for the proxy, whole for token endpoints and scripts
    guard                 which addresses may be dialled: the public internet by https, and what the operator allowed
    dial, tls             from an origin to an open connection, within one time limit; TLS, always verified
    pool                  the connections to one origin, last in first out
    provider_connection   one connection: sends a request, reads its response, decides whether it can be reused
    provider_exchange     one request and its response: the strict parser, and the interface for this package's callers
    limits                concurrency limit, circuit breaker and retry budget for each origin
    write_batch           writes small messages of many connections together at the end of an event loop iteration
    page_memory           the memory budget for the pages that all paged calls hold
    egress_errors         the errors of this package, before they become the caller's error

Always true: every connection is opened to an address that `guard` has just checked, directly or through the outbound
proxy. Only the proxy itself is dialled without the guard. Redirects are not followed, and no cookie is kept. Only the
operator's command `gateway connections import` calls Nango without this package (`moving/peer.py`).
"""

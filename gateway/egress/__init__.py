"""The one way out: guarded connections to providers, for proxied calls, token endpoints and scripts alike.

    client.py               Requests to providers: streamed for the proxy, whole for token endpoints and scripts.
    guard.py                Which addresses may be dialled: the public internet by https, and what the operator
                            opened, by http too.
    dial.py                 From an origin to an open connection: look up, admit, connect, the outbound proxy, TLS,
                            within one time limit.
    tls.py                  TLS with providers: always verified, sessions resumed, client certificates for mutual
                            TLS.
    pool.py                 The connections to one origin: lent last-in first-out, so that those not needed grow old
                            and are closed.
    provider_connection.py  One connection to a provider: a request out, its answer in, and whether another one may
                            follow.
    answer_reader.py        One answer after another out of a connection's bytes: interim ones swallowed, heads
                            parsed, bodies unframed.
    provider_exchange.py    One request and its answer as their users see them: who keeps the connection, who waits,
                            where the answer goes.
    limits.py               Before each provider origin: concurrency limit, circuit breaker and retry budget.
    write_batch.py          Small messages of many connections that leave together, at the end of the event loop's
                            turn.
    page_memory.py          One bound for the pages that all paged calls of this process hold in memory, with a fair
                            share for each key.
    egress_errors.py        What can go wrong on the way to a provider, before anyone decides what the caller shall
                            hear of it.

Always true: no socket is opened to an address that `guard` has not admitted; TLS is always verified.
"""

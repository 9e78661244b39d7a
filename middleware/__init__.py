"""The way in: one aiohttp middleware a file, each of which learns one fact. `surfaces` puts them in order.

    surfaces.py          The ways in, outermost first. A new step is one new line here.
    chain.py             Binds middlewares to a route instead of an application, so that a host's own routes are
                         untouched (ADR 1).
    facts.py             What the chain has learned about a request: typed keys, each set by the one middleware
                         named beside it.
    request_id.py        Names the exchange: the caller's X-Request-Id if it is fit to be logged, else one of ours.
    access_log.py        One record an exchange, also for what no route takes: who, where to, how it went.
    error_shape.py       The only place where an exception becomes a response (api-contract 0.2).
    strict.py            Refuses what the parser lets pass: messages that another reader might understand
                         differently (RFC 9112 §11.2).
    cors.py              Scripts in browsers: any origin may read what our API answers, and none may have a browser
                         add credentials to it.
    expectation.py       `Expect: 100-continue`: a body is invited only when the request will be taken (RFC 9110
                         §10.1.1).
    read_body.py         Reads a body whole: within a limit, without a long pause, and at no slower a pace than that
                         of a slow mobile line.
    json_only.py         Our own API takes JSON: a body that says it is something else is refused before it is read
                         (api-contract 0.1).
    bearer_key.py        Who is calling: the secret key in Authorization names one environment (RFC 6750 §2.1).
    session_token.py     Who is connecting: a connect session's token in Authorization, on the few addresses that
                         take one (api-contract 0.3).
    capability.py        A call by address alone: ``/c/<capability>/…`` says who calls and on whose behalf; no
                         header need do so.
    scope.py             Whether the key may come here at all: each handler says which scope it needs; one that says
                         nothing needs them all.
    pace.py              How fast the key may be used: counted before anything is done for it (api-contract 0.5).
    which_connection.py  On whose behalf: two headers, or the address itself, name one connection of the caller's
                         environment (requirement 5.1).
    upstream.py          Where it goes: the raw path on the provider's base URL, with the fields that travel on
                         (requirement 4.3).
    paginate.py          Whether one answer is asked for or a whole list: ``Gateway-Paginate: all`` has all its
                         pages fetched.
    policy.py            Whether the key may send this: its rules are held against the request as it will leave.
    credentials.py       With what right: the connection's credential is laid over whatever the caller put in its
                         place.
    decompress.py        How it comes back: as the provider coded it, or, where the entry or the caller asks for it,
                         decoded.
    dry_run.py           What would be sent: ``Gateway-Dry-Run: true`` asks to see the request instead of its
                         answer.

Always true: a middleware decides or learns one thing; installed as `gateway.middleware`, so that a host may have a
`middleware` of its own.
"""

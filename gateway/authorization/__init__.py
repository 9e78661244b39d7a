"""How a connection comes to be: sessions, the way to the provider and back, results.

    connect_sessions.py     Connect sessions: what a customer's back end allows one end user to connect, and which
                            settings it may choose.
    flows.py                The authorization of one end user at one provider: out to its page, back to our
                            callback, once.
    grants.py               A grant becomes a connection or, where it reaches several sites, waits sealed until the
                            end user has chosen one.
    session_connections.py  What connect sessions make: connections or, where a session has a code challenge,
                            pending ones that the application completes.
    results.py              How an authorization ends: with a connection, with a choice yet to be made, or with a
                            failure.
    outcomes.py             Reports the outcome of an authorization: to the window that waits, to other nodes, to
                            the application, to the log.
    typed_credentials.py    A connection from what an end user typed in under a connect session: a key, a password,
                            a client of their own.
    reconnect_links.py      Links by which an end user fixes what a call has just failed for: part of the error, one
                            for each key and connection.
    return_address.py       Where an end user returns to: the application's `return_url`, with its `state` and a
                            signed result of the session.
    trusted_pages.py        Which pages an environment trusts: they may embed the connect page, and end users return
                            to them.

Always true: each flow is used once and only by the browser that began it; everyone who waits learns the outcome
before the browser does.
"""

"""How a connection comes to be: connect sessions, the way to the provider and back, results.

An application opens a session, a browser begins a flow, the provider sends it back to the callback, and a grant becomes a
connection. Read in this order:

    connect_sessions      what the application allows one end user to connect, and which settings it fixes
    fixed_settings        checks those settings when the session is made
    flows                 the authorization at a provider: out to its page, back to our callback, once
    grants                a grant becomes a connection, or waits sealed until the end user has chosen a site
    typed_credentials     the same without a redirect: a key, a password, a client typed in under a session
    session_connections   stores the connection, or keeps it pending where the session has a code challenge
    results               how an authorization ends: connection, choice, failure
    outcomes              reports it to the waiting window, to other nodes, to the application and to the log
    reconnect_links       the link in an error by which an end user fixes what a call failed for
    return_address        the signed way back to the application's `return_url`
    trusted_pages         which pages may embed the connect page and be returned to

Always true: a flow is used once, and only by the browser that began it; everyone who waits learns the outcome before the
browser does; nothing of a flow can be read from the database.
"""

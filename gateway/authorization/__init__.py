"""How an end user connects: connect sessions, the redirect to the provider, the callback, the results.

An application opens a session, a browser starts a flow, the provider redirects the browser to the callback, and the
grant becomes a connection. Read in this order:

    connect_sessions      what the application allows one end user to connect, and which settings it fixes
    fixed_settings        checks the fixed settings when the session is created
    flows                 one authorization at a provider: the redirect to its page, then the callback to the gateway
    grants                turns a grant into a connection, or keeps it encrypted until the end user has chosen a site
    typed_credentials     connects without a redirect: the end user types a key, a password or an OAuth client
    session_connections   stores the connection, or keeps it pending if the session has a code challenge
    results               the possible results of an authorization: connection, choice, failure
    outcomes              reports the result to the waiting window, other nodes, the application and the log
    open_authorizations   limits how many attempts a session makes without success
    reconnect_links       the link that the error of a failed call contains, so that the end user can reconnect
    return_url            the signed redirect to the application's `return_url`
    trusted_pages         which pages may embed the connect page and receive the redirect back

Always true: a flow can be used only once, and only by the browser that started it. Everyone who waits for the outcome
gets it before the browser does. The database stores settings and tokens of a flow only encrypted.
"""

"""The middlewares of every route, for aiohttp: each finds out or decides one thing. One file per subject.

Read `surfaces` first: it defines every chain, outermost link first. The links, in the order of a proxied call:

    surfaces, chain, facts   the chains; how a chain is bound to a route; facts about a request, as typed keys
    response_shape           sets the request id and CORS headers; turns exceptions into responses
    access_log               writes a record of each request
    request_message          refuses ambiguous messages; sends 100 Continue; reads whole bodies within limits
    who_calls                identifies the caller by key, connect session or capability URL; sets the audit actor
    key_limits               enforces the key's scopes, connections and rate limit, and its rules for the outgoing request
    upstream                 finds the connection that the call names; builds the outgoing request with its credential
    wanted_response          reads what the caller wants: all pages of a list, a part of a response, decoding
    dry_run                  shows the request instead of sending it

Always true: a link and the fast path make the same decisions, because both call the same functions. The folder is
installed as `gateway.middleware` (ADR 45), so that a host application can have its own package `middleware`.
"""

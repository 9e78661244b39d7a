"""The way in: one aiohttp middleware a file, each of which learns or decides one thing.

`surfaces` is the page to read first: it has every chain, outermost link first. The links, in the order of a proxied call:

    surfaces, chain, facts                 the chains; how one is bound to a route; what links learn, as typed keys
    request_id, access_log, cors           names the exchange; records it; lets scripts of other origins read
    error_shape, strict                    exceptions become responses; ambiguous messages are refused
    bearer_key, session_token, capability  who calls: by key, by connect session, by address
    acting                                 the same for the audit trail
    scope, pace                            whether the key may come here, and how fast
    which_connection, upstream             which connection; the address and fields that leave
    paginate, policy                       a whole list?; the key's rules, against the request as it leaves
    credentials, decompress                adds the credential; decoding
    shape, dry_run                         a part of the answer; shows instead of sending
    expectation, read_body, json_only      invites a body; reads one whole; JSON only

Always true: a link decides nothing that the fast path decides otherwise: both call the same functions. The folder is
installed as `gateway.middleware` (ADR 45), so that a host may have a `middleware` of its own.
"""

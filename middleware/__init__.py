"""The way in: aiohttp middlewares, each of which learns or decides one thing; one file a subject.

`surfaces` is the page to read first: it has every chain, outermost link first. The links, in the order of a proxied call:

    surfaces, chain, facts  the chains; how one is bound to a route; what links learn, as typed keys
    answer_shape            names the exchange; lets scripts of other origins read; exceptions become responses
    access_log              records the exchange
    request_message         ambiguous messages are refused; a body is invited, read whole, JSON only
    who_calls               by key, by connect session, by address; the same for the audit trail
    key_limits              what the key may do: its scope, its rate, and its rules, against the request as it leaves
    which_connection        the connection that the headers or the address name
    upstream                the address and fields that leave, and the credential among them
    wanted_answer           all pages of a list, a part of an answer, decoding
    dry_run                 shows instead of sending

Always true: a link decides nothing that the fast path decides otherwise: both call the same functions. The folder is
installed as `gateway.middleware` (ADR 45), so that a host may have a `middleware` of its own.
"""

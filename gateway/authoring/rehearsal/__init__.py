"""A rehearsal: tests one catalog entry with a real gateway; the sandbox takes the role of the provider.

Used by `gateway catalog test NAME`. Read in this order:

    play               the rehearsal: connect, verify, call, refresh, page, revoke, and the outcome of each step
    connect_step       the first step: in a browser if the auth mode redirects, otherwise with a form
    rehearsal_gateway  the gateway under test, with its own socket and store
    stage              the entry with its origins replaced by the sandbox's; paths and queries are kept
    actor              plays the provider: accepts every request, records it, responds
    played_responses   the responses: tokens and pages in the format that the entry describes
    request_checks     compares received requests with the entry, signatures included
    token_checks       checks token requests, by auth mode
    samples            made-up settings, credentials, clients, keys and certificates

Always true: expected requests are derived only from the entry, never by the code that sends the requests.
"""

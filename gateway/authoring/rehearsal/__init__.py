"""A rehearsal: one catalog entry, with the sandbox in the part of its provider and a real gateway in front.

Behind `gateway catalog test NAME`. Read in this order:

    play               the rehearsal: connect, call, refresh, page, verify, revoke, and the outcome of each step
    connect_step       the first step: by the browser where the mode redirects, otherwise by a form
    rehearsal_gateway  the gateway under test, on a socket and a store of its own
    stage              the entry as it is played: origins replaced by the sandbox's, paths and queries kept
    actor              the provider's part: accepts every request, records it, answers
    played_answers     the answers: tokens where the entry looks for them, lists cut as the entry says
    arrival_checks     what must arrive by the entry alone, compared with what did, signatures included
    token_checks       what token requests must contain, mode by mode
    samples            made-up settings, credentials, clients, keys and certificates

Always true: what must arrive is derived from the entry alone, never by the code that sends it.
"""

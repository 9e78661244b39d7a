"""A rehearsal: tests one catalog entry with a real gateway; the sandbox takes the role of the provider.

The command `gateway catalog test NAME` uses this package. Modules in reading order:

    play               runs the steps (connect, verify, call, refresh, page, revoke) and returns the outcome of each step
    connect_step       runs the first step: in a browser if the auth mode redirects, otherwise with a form
    rehearsal_gateway  starts the gateway under test, with its own socket and store
    stage              replaces the origins of the entry by origins of the sandbox; paths and queries stay unchanged
    actor              plays the provider: accepts and records every request, and responds
    played_responses   builds the responses: tokens and pages in the format that the entry describes
    request_checks     compares received requests and their signatures with the entry
    token_checks       checks token requests, by auth mode
    samples            makes up settings, credentials, clients, keys and certificates

Always true: expected requests are derived only from the entry, never by the code that sends the requests.
"""

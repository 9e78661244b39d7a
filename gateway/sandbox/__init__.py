"""The built-in fake provider: a tracker behind OAuth 2.0, in its own process, for `gateway demo` and for tests.

    app.py             The sandbox as an aiohttp application: its routes, and what every request passes.
    state.py           What the sandbox's handlers share, under one AppKey.
    sandbox_memory.py  The file in which the sandbox remembers: JSON, replaced atomically, readable by its owner
                       only.
    accounts.py        Who may log in, and what an application may ask of them: the demo users and the scopes in
                       words.
    consent.py         The authorization request, and the pages a person walks through: log in, consent or refuse,
                       and back.
    issued_grants.py   What the authorization server remembers: codes, grants and tokens, the last only as digests.
    token_endpoint.py  The token endpoint (RFC 6749 §3.2, §4.1.3, §6) and the revocation endpoint (RFC 7009).
    callers.py         Whom a request's access token stands for, and how one is refused.
    tracker.py         The issue tracker's content: two sites, their issues (the same in every run), and those that
                       were created since.
    tracker_api.py     The tracker's REST API: sites, issues, its corner of JQL, its pages.
    lists.py           Lists of any length, cut in each of the ways in which providers cut them. Made up from their
                       numbers, never held.
    streams.py         Bodies that a tracker would not have and a proxy must carry: events, records, sockets, and
                       bytes of any size both ways.
    noise.py           Bytes that anyone can make again: the same for every run, and different at every place, so
                       that nothing can be swapped.
    faults.py          Trouble on demand: each fault, and how it is switched on.
    controls.py        What a test asks of the sandbox itself: faults on and off, counters, and its own description.
    pages.py           The few HTML pages: one card on a plain ground, light or dark as the reader's system is,
                       nothing from elsewhere.
    visitor.py         A person with a browser, played over HTTP: follows the links, fills in the forms, clicks
                       "Allow".

Always true: whatever it answers can be made again by the same calls; docs/sandbox.md names its imports.
"""

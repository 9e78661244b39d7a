"""The built-in provider for demos: a fake Jira behind OAuth 2.0, for `gateway demo` and for tests (docs/sandbox.md).

    app, state                        the application and its routes; what its handlers share
    accounts, consent                 demo users and scopes; login and consent pages
    issued_grants, token_endpoint     codes, grants and tokens; the token and revocation endpoints
    callers                           whose an access token is
    tracker, tracker_api              the content, the same in every run; its REST API
    lists, streams, noise             lists cut in every way; bodies of any size; bytes that can be made again
    faults, controls                  faults on demand; switches and counters for tests
    sandbox_memory                    the file in which it remembers
    pages, visitor                    its HTML; a person with a browser, played over HTTP
    __main__                          ``python -m gateway.sandbox``: the sandbox as a process

Always true: the same calls give the same answers; it listens on loopback unless configured otherwise; tests may import what
docs/sandbox.md names.
"""

"""The built-in provider for demos: a fake Jira behind OAuth 2.0, for `gateway demo` and for tests (docs/sandbox.md).

    app, state                        the application and its routes; the state that its handlers share
    accounts, consent                 demo users and scopes; login and consent pages
    issued_grants, token_endpoint     codes, grants and tokens; the token and revocation endpoints
    callers                           checks access tokens, and returns their user and scopes
    tracker, tracker_api              the content, the same in every run; its REST API
    lists, streams, noise             lists with every kind of pagination; bodies of any size; reproducible bytes
    faults, controls                  faults on demand; switches and counters for tests
    sandbox_memory                    the state file, which keeps grants and issues over a restart
    pages, visitor                    its HTML; a simulated person with a browser, over HTTP
    __main__                          ``python -m gateway.sandbox``: the sandbox as a process

Always true: the same calls get the same responses; it listens only on the loopback address; tests may import what
docs/sandbox.md names.
"""

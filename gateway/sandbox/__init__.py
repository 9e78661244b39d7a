"""The built-in provider for demos: a fake Jira behind OAuth 2.0, for `gateway demo` and for tests (docs/sandbox.md).

    app, state                        the application and its routes; the state that all handlers share
    accounts, consent                 demo users and scopes; login and consent pages
    issued_grants, token_endpoint     codes, grants and tokens; the token and revocation endpoints
    callers                           checks access tokens, and returns their user and scopes
    tracker, tracker_api              sites and issues, the same in every run; the REST API for sites and issues
    lists, streams, noise             lists with every kind of pagination; bodies of any size; reproducible bytes
    faults, controls                  faults on demand; switches and counters for tests
    sandbox_memory                    the state file, which keeps grants and issues over a restart
    pages, visitor                    the HTML pages; a simulated person with a browser, over HTTP
    __main__                          ``python -m gateway.sandbox``: the sandbox as a process

Always true: the same calls get the same responses; the sandbox listens only on the loopback address; tests may import
only the names in docs/sandbox.md.
"""

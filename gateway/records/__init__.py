"""What travels inside: frozen, slotted dataclasses without behaviour of their own.

    connection.py     A connection: one end user's authorized link to one integration, its lease and its past.
    states.py         The states of a connection and every way from one to the next. Nothing else decides what state
                      a connection is in.
    integration.py    An integration: the configured use of one provider (requirement 2.3).
    connecting.py     What lives for minutes while an end user connects: the session a customer opens, the flow a
                      browser walks, its outcome.
    access.py         Who may do what: environments, minted keys and their limits, capabilities.
    event.py          Events: what the customer's application is told, and how its delivery stands.
    provider_call.py  One small exchange with a provider, as data: what an auth mode wants to be asked, and what
                      came of it.
    proxied_call.py   One proxied call: the request in the making, where its time went, its pages, and its record.

Always true: no I/O and no decision; `states` is the one table of a connection's states.
"""

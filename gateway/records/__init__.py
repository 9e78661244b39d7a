"""The records that travel inside the gateway: frozen dataclasses without I/O.

    connection      a connection: ids, sealed credential, state, lease, intent
    states          the states of a connection, and every transition between them
    integration     an integration: the configured use of one provider
    connecting      what lives for minutes while an end user connects: session, flow, outcome
    access          environments, minted keys, their limits, capabilities
    event           events: what the application is sent, and the state of a delivery
    provider_call   one small exchange with a provider, as data
    proxied_call    one proxied call: the request in the making, its timing, its pages, its record
    audit           the audit trail: its actions, who acted, one record in canonical bytes
    trace           a sampled call's place in its trace, and what its spans are made of
    operation       what the call log keeps, and what it is searched by
    filters         a value that filters of several stores take
    traffic         sums over the call log, by quarter of an hour and by result
    console         who works at the console, and what they may do

Always true: no I/O; `states` is the one table of a connection's states, and nothing else decides what state follows.
"""

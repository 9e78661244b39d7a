"""The records that travel inside the gateway: frozen dataclasses without I/O.

    connection      a connection: ids, sealed credential, state, lease, intent
    states          the states of a connection, and all transitions
    integration     an integration: the configured use of one provider
    connecting      short-lived records while an end user connects: session, flow, outcome
    access          environments, minted keys, their limits, capabilities
    event           events for the application, and the state of each delivery
    provider_call   one small request to a provider, such as a token request, and its reply
    proxied_call    one proxied call: the request, its timing, its pages, its record
    audit           the audit trail: its actions, the actor, one record in canonical bytes
    trace           a sampled call's place in its trace, and the data of its spans
    operation       one row of the call log, and the filter that searches it
    filters         a value that filters of several stores share
    traffic         totals of the call log, by quarter of an hour and by result
    console         the console's sessions and roles

Always true: no I/O; `states` is the only table of a connection's states, and nothing else decides the next state.
"""

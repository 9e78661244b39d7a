"""The caller of a request and what its key may do: keys, scopes, rules, limits, and the refusals.

A key arrives as text: `known_keys` finds its caller by digest, `key_policy` decides, `refusals` says no. In this order:

    scopes         the scopes that exist, and which scope covers which
    key_policy     one key's scopes, limits and rules: the decision that the chain and the fast path share
    body_rules     rules that look into the body: tools of an MCP server, GraphQL; what a body says, read strictly
    operation_rules, freeze_operations    rules that name operations of the catalog: the snapshot, and how it is made
    refusals       the 403 and 404 of a limited key: the rule, who can change it, the next step
    key_forms      the form of minted keys and capabilities, and what a request for one may contain
    caller         the caller of a request: its environment, its access, its rate and budget
    known_keys     from a key's text to its caller: minted keys cached by digest, dropped when any process changes them
    issue_keys     creates and revokes keys, for the API and the command line alike
    client_window  what a client without a key does within a minute: invalid keys throttled, refusals logged a few times

Always true: only digests of keys are stored; no key gives away more than it has; a refusal names the rule and the next step.
"""

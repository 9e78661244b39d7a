"""The caller of a request and what its key may do: keys, scopes, rules, limits, and the refusals.

A key arrives as text: `known_keys` finds its caller by digest, `key_policy` decides, `refusals` builds the error.
Modules:

    scopes         the scopes, and which scope covers which
    key_policy     one key's scopes, limits and rules: the decision that the chain and the fast path share
    rule_paths     the path of a rule: matched in linear time
    body_rules     rules that read the body: tools of an MCP server, GraphQL; a strict parser of bodies
    tool_filter    selects the tools of an MCP server's list that a key may call
    operation_rules, freeze_operations    rules that name operations of the catalog: the snapshot, and how it is built
    refusals       the 403 and 404 of a limited key: the rule, who can change it, the next step
    key_forms      the form of minted keys and capabilities, and the checks of a request for one
    caller         the caller of a request: its environment, its access, its rate and budget
    known_keys     from a key's text to its caller: minted keys cached by digest, dropped when any process changes them
    issue_keys     creates and revokes keys, for the API and the command line
    window_counter  counts events by key within a time window
    client_window  throttles invalid keys and limits log lines, for each client

Always true: only digests of keys are stored; a key that mints a key can give it no rights beyond its own; a refusal
names the rule and the next step.
"""

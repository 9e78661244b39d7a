"""The caller of a request and what its key may do: keys, scopes, rules, limits, and the refusals.

`known_keys` finds the caller of a key by its digest, `key_policy` decides whether the request is allowed, and
`refusals` builds the error if it is not. Modules:

    scopes         the scopes of keys, and which scopes include other scopes
    key_policy     decides whether one key's scopes, limits and rules allow a request
    key_rule       parses a rule, and matches a request's path with it in linear time
    ambiguous_requests      finds requests that two servers can read as different methods, paths or objects
    body_rules     rules about the body (tools of an MCP server, GraphQL fields), and a strict parser of bodies
    tool_filter    selects the tools of an MCP server's list that a key is allowed to call
    operation_rules, freeze_operations    rules that name operations of the catalog, and their snapshots
    refusals       errors for limited keys: the rule, who can change the rule, and the next step
    key_forms      the text format of minted keys and capabilities, and the checks of a request for a new key
    caller         the caller of a request: its environment, its access, its rate and budget
    known_keys     finds the caller of a key; caches minted keys by digest until any process changes them
    issue_keys     creates and revokes keys, for the API and the command line
    window_counter, client_window    count events by key; throttle invalid keys and log lines, for each client

Always true: only digests of keys are stored; a key cannot mint a key with more rights than its own; each refusal names
the rule and the next step.
"""

"""Serves the Model Context Protocol to agents: the rules of the caller's key are the agent's tools (ADR 53).

    lazy_endpoint       the route handlers, which import the other modules at the first message
    mcp_endpoint        POST /mcp: reads a message and returns the response
    agent_message       a message that the middleware chain or the fast path has accepted
    mcp_messages        the protocol without I/O: JSON-RPC, the revisions of 2025 and 2026-07-28, results and errors
    mcp_request         one JSON-RPC request: its caller, policy, configuration
    key_tools           finds the tools of the caller's key, and their connections
    rule_tools          turns a key's rules into tools, each with its name and its arguments
    tool_list           the response to tools/list: schemas and annotations; searches the tools
    path_overlap        decides whether the paths of two rules can match the same request
    tool_run            runs tools/call, from the arguments to the result
    tool_calls          builds the request of a tool call, and chooses its connection
    list_cursor         the cursors with which a model pages through a list
    tool_provider_call  calls the provider through /proxy, with the caller's own key
    in_process_call     makes this call without a socket: on the fast path, or else through the middleware chain
    tool_results        turns the provider's response into a tool result, cut to a model's limit
    refused_calls       refusals in plain text; asks the user to connect a missing connection
    kept_responses, whole_responses    resources/read: whole responses, kept for minutes for one key, or fetched again

Always true: a tool call passes the same checks as a call of /proxy, on the bytes that are sent and with the caller's
own key. So a tool can do nothing that the key cannot do by HTTP. Only whole responses are kept between two messages.
"""

"""The agent door: the Model Context Protocol on minted keys, whose rules are the tools (ADR 53).

    lazy_endpoint       the handlers, which load all this with the first message
    mcp_endpoint        POST /mcp: reads a message, answers it
    agent_message       the message as the chain or the server's fast path has read and admitted it
    mcp_messages        the protocol without I/O: JSON-RPC, the revisions of 2025 and 2026-07-28, results and errors
    door_request        one request of the protocol: its caller, policy, configuration
    key_tools           the tools of its key, and the connections that they are for
    tool_list           a key's rules as tools: names, arguments, schemas, annotations; search among many
    path_overlap        whether some path fits two rules
    tool_run            tools/call, from the arguments to the result
    tool_calls          from a tool's arguments to the request that it makes, and to the connection that it is for
    list_cursor         lists page by page: the cursor that a model passes on
    tool_provider_call  the call to the provider, with the caller's own key
    in_process_call     that call of /proxy without a socket: by the server's fast path, else through the route and the chain
    tool_results        the answer as a tool's result, cut to what a model can take
    refused_calls       refusals in plain text; a missing connection, and the person who may connect it
    kept_answers        the memory of whole answers, for minutes and for one key
    whole_answers       resources/read: a whole answer behind a link, from that memory or fetched again

Always true: what is called is decided as a call of /proxy is, on the bytes that leave, with the caller's own key, so nothing
gets through here that the same key could not do by HTTP; nothing is remembered between two messages but whole answers.
"""

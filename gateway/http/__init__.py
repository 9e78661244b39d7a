"""Pure functions on HTTP messages: no I/O, no aiohttp application. Each rule cites its RFC section.

    headers                                      tables of field names by kind; which fields pass, in either direction
    url, origin, ids                             paths and queries byte for byte; scheme, host and port; ids in addresses
    request_head, answer_head, passed_head       heads: of a request, of a provider's answer, of what the caller gets
    chunks, content_coding                       chunked framing and content codings undone, within limits
    body_members, strict_json, json_scan         members added to a body; JSON read strictly; the end of a value
    references, paging                           links that lead into the provider; pages of a list
    json_select, shaped_body                     JMESPath at a cost known before; an answer cut to so many bytes
    graphql_document, tool_list_filter           what a GraphQL document asks for; an MCP server's list of tools, shortened
    retry, proxy_options                         whether and when to send again; our control headers
    scope_challenge                              the scopes that a 403 asks for
    abort                                        cuts a torn answer

Always true: what two readers could read differently is refused; hop-by-hop fields never pass (`headers`).
"""

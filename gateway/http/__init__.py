"""Pure functions on HTTP messages: no I/O, no aiohttp application. Each rule cites its RFC section.

    headers                                   which header fields pass from the caller to the provider, and back
    url                                       paths and queries byte for byte
    request_head, response_head, passed_head  the heads of requests, of providers' responses, of responses to callers
    chunks, content_coding                    decode chunked framing and content codings, within limits
    body_members, strict_json, json_scan      add members to a body; parse JSON strictly; find the end of a JSON value
    json_depth, compact_json                  limits the nesting depth of JSON; parses and writes JSON fast
    references, paging                        rewrite links that point to the provider; pages of a list
    json_select, shaped_body                  JMESPath with a bounded cost; a response cut to a maximum size
    graphql_document, tool_list_filter        operation and fields of a GraphQL document; filter a list of MCP tools
    retry, proxy_options                      whether and when to retry; the gateway's control headers
    scope_challenge                           the missing scopes that a 403 names
    abort                                     resets the connection of an incomplete response

Always true: a message that two parsers could read differently is refused; hop-by-hop header fields never pass
(`headers`).
"""

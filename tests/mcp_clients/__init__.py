"""Published MCP clients and the protocol's conformance suite, unchanged, with the MCP endpoint. Run by `make mcp-clients`."""

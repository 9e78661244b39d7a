"""Published MCP clients and the protocol's conformance suite, unchanged, with the MCP endpoint: `make mcp-clients`."""

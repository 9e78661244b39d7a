"""Published MCP clients and the protocol's conformance suite, unchanged, at the agent door. `make mcp-clients` runs them."""

"""An MCP server built with FastMCP, protected by the SDK's own OAuth server. `sys.argv[1]`: its port."""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions

port = int(sys.argv[1])
auth = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{port}",
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"]),
    revocation_options=RevocationOptions(enabled=True),
)
server = FastMCP("rehearsal", auth=auth)


@server.tool
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)

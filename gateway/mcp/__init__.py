"""The agent door: the Model Context Protocol on minted keys, whose rules are the tools.

    mcp_messages   the protocol without I/O: JSON-RPC, the revisions of 2025 and 2026-07-28, results and errors

A message is one POST: it says its revision, its method and its parameters, and its answer is JSON. Nothing that a client
says once holds for its next message, so there is no session to lose, to share between nodes or to steal.

Always true: nothing is remembered between two messages, so any worker of any node answers; what is refused is refused by the
error of the specification.
"""

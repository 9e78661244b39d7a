"""One JSON-RPC request to the MCP endpoint, with the data that the modules of this package need."""

from gateway.access.caller import Caller
from gateway.access.key_policy import Policy
from gateway.generation import Generation
from gateway.mcp.agent_message import AgentMessage
from gateway.mcp.mcp_messages import RpcRequest
from gateway.records.trace import CallTrace
from gateway.runtime import Runtime
from gateway.vault import SealedTokens


class McpRequest:
    """One JSON-RPC request. `outer`: the HTTP request that contains `message`."""

    __slots__ = ("caller", "environment", "generation", "message", "outer", "policy")

    def __init__(self, outer: AgentMessage, message: RpcRequest) -> None:
        self.outer = outer
        self.message = message
        self.generation: Generation = outer.generation
        self.caller: Caller = outer.caller
        self.policy: Policy = outer.caller.policy
        self.environment: str = outer.caller.environment.name

    @property
    def runtime(self) -> Runtime:
        return self.outer.runtime

    @property
    def gateway_base_url(self) -> str:
        """The public URL of the message's `mount`.

        The gateway writes this URL into response headers, in place of the provider's base URL.
        """
        outer = self.outer
        path = f"c/{outer.mount.rpartition('/')[2]}" if outer.by_capability else "proxy"
        return f"{self.generation.public_url}/{path}"

    @property
    def trace(self) -> CallTrace | None:
        """The trace of the message; None if the message is not sampled."""
        return self.outer.trace

    @property
    def seals(self) -> SealedTokens:
        """Seals texts that clients send back later. Only the gateway can create and read a sealed text."""
        # Stored texts depend on this purpose, so it stays when names change.
        return SealedTokens(self.generation.config.store.encryption_keys, "agent door")

    def count(self) -> None:
        """Count this request against the key's rate. Raises TooManyRequests.

        Not for a request that calls the provider, because ``/proxy`` counts that call itself.
        """
        count(self.caller)


def count(caller: Caller) -> None:
    """Count one request against the rate of the caller's key. Raises TooManyRequests."""
    if caller.access is not None and caller.access.meter is not None:
        caller.access.meter.count_against_rate()

"""The request in the making: what will be sent to the provider. The one mutable record."""

from dataclasses import dataclass, field

from multidict import CIMultiDict

from gateway.records.call import ClientIdentity


@dataclass(slots=True)
class UpstreamRequest:
    """Where it goes and what it says, without its body.

    `target` is the request line's path and query as it will be written, percent-encoding untouched.
    `headers` holds end-to-end fields only; framing and Host are written by whoever sends it.
    `base_path` is how `target` begins: links in the answer that lead below it are turned to lead through us.
    `identity` is shown in mutual TLS; connections made with it serve nobody else.
    """

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    base_path: str = ""
    identity: ClientIdentity | None = None

    @property
    def origin(self) -> str:
        """``https://api.example.com:443``: scheme, host and port always spelled out, for comparing."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.target

"""One proxied request as the request log keeps it: who, where to, how it went; never a query, a header or a body."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """`path` is the upstream path without its query. `error_code` is ours, None where the provider answered."""

    at: datetime
    request_id: str
    environment: str
    integration_id: str
    connection_id: str
    method: str
    host: str
    path: str
    status: int
    duration_ms: float
    bytes_in: int
    bytes_out: int
    error_code: str | None = None

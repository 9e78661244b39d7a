"""One exchange as the logs keep it: who, where to, how it went; never a query, a header or a body."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True, kw_only=True)
class Exchange:
    """`path` has no query; of a proxied request it is the upstream path, and `host` the provider's.

    A request to our own API has no integration, connection or host: these are empty. Only those with a connection are
    stored. `error_code` is ours, ``client_left`` or ``cut``; None where the answer went out as it came.
    """

    # Not frozen: that would triple what making one costs, and one is made for each request.

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

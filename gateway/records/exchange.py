"""One exchange as the logs keep it: who, where to, how it went; never a query, a header or a body."""

from datetime import datetime
from typing import NamedTuple


class Exchange(NamedTuple):
    """`path` has no query; of a proxied request it is what the caller wrote after ``/proxy``, and `host` the provider's.

    A request to our own API has no integration, connection or host: these are empty. Only those that name a connection
    are stored. `error_code` is ours, ``client_left``, ``cut``, or ``stopped`` where the gateway stopped and could not
    wait; None where the answer went out as it came.

    `gateway_ms`, `token_ms` and `upstream_ms` say how the time until the head of a proxied call's answer was spent: in
    the gateway, waiting for the store or a token endpoint, waiting for the provider. None for every other request.
    """

    # A tuple, and the stored members first, in the order of their columns: one is made for each request, and a row is a
    # slice of it.

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
    error_code: str | None = None  # the last that is stored
    gateway_ms: float | None = None
    token_ms: float | None = None
    upstream_ms: float | None = None

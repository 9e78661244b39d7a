"""What the chain has learned about a request: typed keys, each set by the one middleware named beside it."""

from aiohttp import web

from gateway.connections.opened import Opened
from gateway.records.environment import Environment
from gateway.records.paging import Paging
from gateway.records.timing import Timing
from gateway.records.upstream import UpstreamRequest
from gateway.wire.asked import Asked
from gateway.wire.coding import Decoder

REQUEST_ID = web.RequestKey("request_id", str)  # request_id
TIMING = web.RequestKey("timing", Timing)  # access_log; `connection` and `forward` add what they waited for
ENVIRONMENT = web.RequestKey("environment", Environment)  # bearer_key
ASKED = web.RequestKey("asked", Asked)  # connection
CONNECTION = web.RequestKey("connection", Opened)  # connection
UPSTREAM = web.RequestKey("upstream", UpstreamRequest)  # upstream, then credentials writes into it
PAGING = web.RequestKey("paging", Paging)  # paginate; absent: one answer is passed on as it is
DECODER = web.RequestKey("decoder", Decoder)  # decompress; absent: bytes pass as they are

"""What the chain has learned about a request: typed keys, each set by the one middleware named beside it."""

from aiohttp import web

from gateway.connections.opened import Opened
from gateway.keys.caller import Caller
from gateway.keys.meter import Pace
from gateway.records.capability import Capability
from gateway.records.connecting import ConnectSession
from gateway.records.environment import Environment
from gateway.records.paging import Paging
from gateway.records.timing import Timing
from gateway.records.upstream import UpstreamRequest
from gateway.wire.asked import Asked
from gateway.wire.coding import Decoder

REQUEST_ID = web.RequestKey("request_id", str)  # request_id
TIMING = web.RequestKey("timing", Timing)  # access_log; `connection` and `forward` add what they waited for
CALLER = web.RequestKey("caller", Caller)  # bearer_key, capability
ENVIRONMENT = web.RequestKey("environment", Environment)  # bearer_key, capability
CAPABILITY = web.RequestKey("capability", Capability)  # capability; absent: called by headers
PACE = web.RequestKey("pace", Pace)  # pace; absent: the key has no rate
CONNECT_SESSION = web.RequestKey("connect_session", ConnectSession)  # session_token
ASKED = web.RequestKey("asked", Asked)  # connection
CONNECTION = web.RequestKey("connection", Opened)  # connection
UPSTREAM = web.RequestKey("upstream", UpstreamRequest)  # upstream, then credentials writes into it
PAGING = web.RequestKey("paging", Paging)  # paginate; absent: one answer is passed on as it is
DECODER = web.RequestKey("decoder", Decoder)  # decompress; absent: bytes pass as they are

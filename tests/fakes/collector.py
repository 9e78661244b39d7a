"""A trace collector: a real server for OTLP over HTTP that decodes the requests and fails on demand."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.fakes.patience import PATIENCE_S

KINDS = {2: "server", 3: "client"}


@dataclass(frozen=True)
class Span:
    """A received span. `parent` is empty for a root span. `start` and `end` are in nanoseconds since 1970."""

    name: str
    trace_id: str
    span_id: str
    parent: str
    kind: str
    start: int
    end: int
    failed: bool
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    service: str


@dataclass
class Collector:
    """A trace collector.

    `status`: the status of every response. While `hold` is unset, responses wait. `raw`: the received bodies,
    decompressed.
    """

    url: str = ""
    status: int = 200
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    spans: list[Span] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: int = 0

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests += 1
        self.headers.append(dict(request.headers))
        await self.hold.wait()
        if self.status == 200:
            plain = gzip.decompress(body) if request.headers.get("Content-Encoding") == "gzip" else body
            self.raw.append(plain)
            self.spans += decode_spans(plain)
        response = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=self.status, body=response, content_type="application/x-protobuf")

    async def wait_until(self, enough: Callable[[], Any]) -> list[Span]:
        """Wait until `enough()` is true, and return the spans."""
        async with asyncio.timeout(PATIENCE_S):
            while not enough():
                await asyncio.sleep(0.005)
        return self.spans

    async def wait_until_spans(self, number: int) -> list[Span]:
        return await self.wait_until(lambda: len(self.spans) >= number)

    def spans_named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    @property
    def orphans(self) -> list[Span]:
        """Return the spans that name a parent which was not received."""
        known = {(span.trace_id, span.span_id) for span in self.spans}
        return [span for span in self.spans if span.parent and (span.trace_id, span.parent) not in known]


def decode_spans(body: bytes) -> list[Span]:
    message = ExportTraceServiceRequest.FromString(body)
    found = []
    for resource in message.resource_spans:
        service = {item.key: item.value.string_value for item in resource.resource.attributes}.get("service.name", "")
        found += [
            Span(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                KINDS.get(span.kind, str(span.kind)),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                span.status.code == 2,
                {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes},
                tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                service,
            )
            for scope in resource.scope_spans
            for span in scope.spans
        ]
    return found


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    made = Collector()
    made.hold.set()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/traces", made.take)
    server = TestServer(app)
    await server.start_server()
    made.url = f"http://127.0.0.1:{server.port}"
    yield made
    made.hold.set()
    await server.close()

"""What was decided about a request on the fast lane before it left, and the record of it once it is over."""

from dataclasses import dataclass, field
from typing import Final

from gateway import clock
from gateway.connections.opened import Opened
from gateway.egress.gates import Gate
from gateway.egress.pool import Pool
from gateway.keys.caller import Access
from gateway.records.exchange import Exchange
from gateway.services import Services
from middleware.access_log import path_below
from middleware.request_id import new_id

MOUNT: Final = "/proxy"


@dataclass(slots=True)
class Route:
    """The way of all plain requests with the same header lines over one opened connection, which keeps it.

    `lines`: everything behind the request line, with the credential in its place.
    """

    services: Services
    gate: Gate
    pool: Pool
    lines: bytes
    in_query: bool


@dataclass(slots=True)
class Plan:
    """`began`: monotonic seconds. `request_id`: the caller's name for it, if fit. `retries`: as the caller asks. `mount`:
    ``/proxy``, or the capability's address that it was asked below. `access`: of a minted key.
    """

    began: float
    route: Route
    request_id: str | None
    opened: Opened
    method: str
    target: str
    retries: int
    mount: str = field(default=MOUNT, repr=False)
    access: Access | None = None

    def refused(self, status: int) -> None:
        """The provider refuses the credential, or what is asked with it."""
        path = self.target.partition("?")[0]
        self.route.services.live.rejections.refused(self.opened, status, path)

    def note(self, status: int, error: str | None, bytes_out: int, sent_at: float, head_at: float) -> None:
        """It is over; `sent_at` and `head_at`: when it left, and when the answer's head was there, 0.0 if none was."""
        now, began = clock.monotonic(), self.began
        ref, base = self.opened.connection.ref, self.opened.base
        self.route.gate.budget.requests += 1
        # By position, which costs a third of what names do.
        self.route.services.request_log.note(
            Exchange(
                clock.now(),
                self.request_id or new_id(),
                ref.environment,
                ref.integration_id,
                ref.connection_id,
                self.method,
                base.host,
                path_below(base.path, self.target),
                status,
                round((now - began) * 1000, 3),
                0,
                bytes_out,
                error,
                (sent_at - began) * 1000,
                0.0,
                ((head_at or now) - sent_at) * 1000,
            )
        )

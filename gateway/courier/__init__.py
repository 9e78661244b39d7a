"""Asks token endpoints from a process of its own, so that an answer outlives the gateway that wanted it (ADR 33).

    gateway ▸ errand ▸ courier ▸ token endpoint
    courier ▸ note beside the database ▸ the answer, to the gateway if it is still there

A refresh token is spent the moment the provider works off the request. From then until the answer is noted, nobody else
has the new one; so who waits for it is a process with nothing else to do, which a crash of the gateway does not touch.
"""

from gateway.courier.courier import Courier
from gateway.courier.errand import Errand, Way
from gateway.courier.line import CourierLost, Line

__all__ = ["Courier", "CourierLost", "Errand", "Line", "Way"]

"""Tells all who wait for an authorization what became of it: before the browser hears of it, since that may have left."""

from collections.abc import Coroutine, Mapping
from typing import Any

from gateway import clock
from gateway.connections.arrived import Arrived, Back, Choice
from gateway.connections.failures import log_failure
from gateway.connections.flow_faults import error_type
from gateway.connections.outcomes import Outcomes
from gateway.connections.unmade import tell_failure
from gateway.errors import GatewayError
from gateway.records.connecting import Flow, Outcome
from gateway.store import Store


class Telling:
    """`details` are those of the flow."""

    def __init__(self, store: Store, outcomes: Outcomes) -> None:
        self._store = store
        self._outcomes = outcomes

    async def told(
        self, flow: Flow, details: Mapping[str, Any], work: Coroutine[Any, Any, Arrived | Choice], back: Back
    ) -> Arrived | Choice:
        """What comes of `work`, told to those who wait for it before it is told to the browser."""
        try:
            came = await work
        except Exception as fault:
            await self.failure(flow, details, fault, back)
            if isinstance(fault, GatewayError):
                await tell_failure(self._store, flow, details["provider"], details, fault)
            raise
        if isinstance(came, Arrived):
            connection_id = came.connection.ref.connection_id
            await self._outcomes.tell(_outcome(flow, details, connection_id=connection_id, is_pending=came.is_pending))
        return came

    async def failure(self, flow: Flow, details: Mapping[str, Any], fault: Exception, back: Back) -> None:
        """It came to nothing; what is no GatewayError is told without its words."""
        log_failure(
            fault,
            environment=flow.environment,
            integration=flow.integration_id,
            request_id=back.request_id,
            connection_id=flow.connection_id,
            query=back.query,
        )
        known = fault if isinstance(fault, GatewayError) else None
        outcome = _outcome(
            flow,
            details,
            error_type=error_type(known) if known else "unknown_err",
            error_desc=known.message if known else "The gateway failed. Its log has the details.",
            code=known.code if known else "generic_error_support",
        )
        await self._outcomes.tell(outcome)


def _outcome(flow: Flow, details: Mapping[str, Any], **what: Any) -> Outcome:
    return Outcome(
        environment=flow.environment,
        session_digest=flow.session_digest,
        integration_id=flow.integration_id,
        client_digest=details.get("client"),
        flow_digest=details.get("began", flow.state_digest),
        browser_digest=details.get("browser"),
        at=clock.now(),
        **what,
    )

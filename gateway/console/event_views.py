"""The console's page Events shows delivered, pending and dead deliveries, and has a form to send events again."""

from typing import Final

from aiohttp import web

from gateway import clock
from gateway.api.connection_json import timestamp_with_offset
from gateway.console.console_page import SignedIn, View, console_path
from gateway.console.query_fields import fields_of, number_in
from gateway.errors import InvalidRequest
from gateway.records.event import Delivery, DeliveryState
from gateway.runtime import RUNTIME
from gateway.store import EventFilter
from gateway.text import counted

ROWS_PER_PAGE: Final = 50


async def events(request: web.Request, environment: str) -> View:
    query = fields_of(request.query, ("state", "connection", "cursor"))
    state = next((state for state in DeliveryState if state.value == query["state"]), None)
    if query["state"] and state is None:
        raise InvalidRequest("invalid_query_params", "'state' must be pending, delivered or dead.")
    event_filter = EventFilter(
        environment=environment,
        state=state,
        connection_id=query["connection"] or None,
        limit=ROWS_PER_PAGE + 1,
        cursor=number_in(query, "cursor"),
    )
    deliveries = await request.app[RUNTIME].store.event_log.list(event_filter)
    data = {
        "title": "Events",
        "asked": query,
        "states": [state.value for state in DeliveryState],
        "deliveries": [delivery_fields(delivery) for delivery in deliveries[:ROWS_PER_PAGE]],
        "following": deliveries[ROWS_PER_PAGE - 1].id if len(deliveries) > ROWS_PER_PAGE else None,
    }
    return View("events.html", data, "events")


def delivery_fields(delivery: Delivery) -> dict[str, object]:
    return {
        "id": delivery.id,
        "message_id": delivery.message_id,
        "event": delivery.event,
        "at": timestamp_with_offset(delivery.at),
        "integration_id": delivery.integration_id,
        "connection_id": delivery.connection_id,
        "target": delivery.target,
        "state": delivery.state.value,
        "attempts": delivery.attempts,
        "status": delivery.status,
        "detail": delivery.detail,
        "due_at": None if delivery.due_at is None else timestamp_with_offset(delivery.due_at),
    }


async def replay(request: web.Request, _signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Send the event with the given id again, or all dead deliveries."""
    message_id, all_dead = fields.get("message_id", ""), bool(fields.get("all_dead"))
    if bool(message_id) == all_dead:
        raise InvalidRequest(
            "invalid_body", "Select one event by its message_id, or all undelivered events with all_dead; not both."
        )
    event_filter = EventFilter(
        environment=environment,
        state=DeliveryState.DEAD if all_dead else None,
        message_ids=[message_id] if message_id else (),
    )
    queued_count = await request.app[RUNTIME].store.event_log.replay(event_filter, clock.now())
    data = {
        "title": "Events are sent again",
        "message": f"{counted(queued_count, 'delivery', 'deliveries')} queued. Each is retried for a day; the event ids stay "
        "the same.",
        "back": console_path(request, environment, "events"),
    }
    return View("outcome.html", data, "events")

"""Trace context: parsing of ``traceparent``, and which spans link to which."""

import pytest

from gateway.records.trace import (
    CallTrace,
    RefreshTrace,
    TraceParent,
    current_refresh,
    current_trace,
    current_traceparent,
    parent_in,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (f"00-{TRACE}-{SPAN}-01", TraceParent(TRACE, SPAN, 1)),
        (f"00-{TRACE}-{SPAN}-00", TraceParent(TRACE, SPAN, 0)),
        (f"00-{TRACE}-{SPAN}-03", TraceParent(TRACE, SPAN, 3)),
        (f"cc-{TRACE}-{SPAN}-01", TraceParent(TRACE, SPAN, 1)),
        (f"cc-{TRACE}-{SPAN}-01-more", TraceParent(TRACE, SPAN, 1)),
        (f"cc-{TRACE}-{SPAN}-01more", None),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}_01", None),
        (f"00-{TRACE}-{SPAN}-zz", None),
        ("", None),
        (None, None),
    ],
)
def test_a_traceparent_is_read_as_the_standard_says(field: str | None, expected: TraceParent | None) -> None:
    assert parent_in(field) == expected


def call_of(n: int) -> CallTrace:
    return CallTrace(f"{n:032x}", None, 1, 0.0)


def test_the_first_sampled_call_that_waits_has_the_refresh_and_the_others_link_to_it() -> None:
    refresh, first, second = RefreshTrace(None, 0.0), call_of(1), call_of(2)
    for waiting in (None, first, first, second):
        refresh.add_waiter(waiting)
    assert refresh.parent_call is first
    assert (first.waited_for, second.waited_for) == ([], [refresh])


def test_the_cause_of_a_write_during_a_refresh_is_the_span_of_the_refresh() -> None:
    call = call_of(1)
    refresh = RefreshTrace(call, 0.0)
    outer, inner = current_trace.set(call), current_refresh.set(None)
    try:
        assert current_traceparent() == f"00-{call.trace_id}-{call.span_id}-01"
        current_refresh.set(refresh)
        assert current_traceparent() == f"00-{call.trace_id}-{refresh.span_id}-01"
        current_refresh.set(RefreshTrace(None, 0.0))
        assert current_traceparent() is None
    finally:
        current_refresh.reset(inner)
        current_trace.reset(outer)
    assert current_traceparent() is None


def test_a_second_outcome_is_another_span() -> None:
    refresh = RefreshTrace(call_of(1), 0.0)
    refresh.end()
    first, refresh.exported = refresh.span_id, True
    refresh.end()
    assert refresh.span_id != first

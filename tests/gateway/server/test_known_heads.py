"""A remembered head means the same for each request as its lines mean when they are parsed."""

import gc
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.connections.opened import Placement
from gateway.records.connection import CONNECTION_ID, id_fault
from gateway.records.proxied_call import PROXY_PATH
from gateway.server import fast_message, known_heads
from gateway.server.fast_message import KnownMessage
from gateway.server.known_heads import ArrivedHead, KnownHead, KnownHeads
from gateway.server.request_lines import LineReader
from tests.fakes.held_texts import texts_in

KEY = "gwdev_0123456789abcdef0123456789abcdef"
USUAL = f"Host: gw.example\r\nAuthorization: Bearer {KEY}\r\nProvider-Config-Key: crm\r\n"
TRACES = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2)]
NONE: frozenset[str] = frozenset()


def lines_of(*more: str, usual: str = USUAL) -> bytes:
    """Return header lines as the fast path cuts them from a request: each begins with CRLF."""
    return ("\r\n" + usual + "\r\n".join(more)).removesuffix("\r\n").encode("latin-1")


def read(lines: bytes) -> ArrivedHead[KnownHead] | None:
    """Parse the lines without remembered heads."""
    found = LineReader().read(lines[2:])
    if found is None:
        return None
    known = KnownHead(PROXY_PATH, found.key, found)
    return ArrivedHead(known, found.options.connection_id, found.length)


def remember_head(heads: KnownHeads[KnownHead], lines: bytes) -> None:
    """Let the head arrive twice, so that it is remembered if possible."""
    for _ in range(2):
        head = read(lines)
        assert head is not None
        heads.remember(lines, None, head)


def meaning(head: ArrivedHead[KnownHead], replaced: frozenset[str] = NONE) -> tuple[object, ...]:
    read = head.known.lines
    return (
        head.known.outgoing_lines(replaced, head.values),
        head.framing,
        (head.connection_id, head.length, head.traceparent, head.request_id, head.has_body),
        (read.options.integration_id, read.options.retries, read.last, read.chunked),
        head.known.names,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(["Connection-Id: c1"], ["Connection-Id: c2"], id="another connection"),
        pytest.param(["connection-id: c1"], ["connection-id: c2"], id="another connection, in lower case"),
        pytest.param(
            ["Connection-Id: c1", "Content-Length: 3"], ["Connection-Id: c1", "Content-Length: 44"], id="length"
        ),
        pytest.param(
            ["Connection-Id: c1", "Content-Length: 3"], ["Connection-Id: c1", "Content-Length: 0"], id="no body"
        ),
        pytest.param(
            ["Connection-Id: c1", f"traceparent: {TRACES[0]}", "Accept: */*"],
            ["Connection-Id: c1", f"traceparent: {TRACES[1]}", "Accept: */*"],
            id="another trace",
        ),
        pytest.param(
            [f"Traceparent: {TRACES[0]}", "Accept: */*", "Content-Length: 3", "Connection-Id: c1"],
            [f"Traceparent: {TRACES[1]}", "Accept: */*", "Content-Length: 4", "Connection-Id: c2"],
            id="all of them",
        ),
        pytest.param(
            ["Connection-Id: c1", "X-Request-Id: one", "Idempotency-Key: 5%b%", "Accept: 5%"],
            ["Connection-Id: c1", "X-Request-Id: not loggable", "Idempotency-Key: 5%s%%", "Accept: 5%"],
            id="ids of the request",
        ),
        pytest.param(
            ["tracestate: a=1", f"traceparent: {TRACES[0]}", "baggage: b=1", "tracestate: c=2", "Connection-Id: c1"],
            ["tracestate: a=3", "traceparent: other", "baggage: b=4", "tracestate: a=3", "Connection-Id: c1"],
            id="fields of a trace, one of them twice, one not passed on",
        ),
        pytest.param(
            [
                "Connection-Id: c1",
                'If-None-Match: "1"',
                "x-b3-traceid: 1",
                "X-B3-SpanId: 2",
                "X-Request-ID: 3",
                "x-request-id: 4",
            ],
            [
                "Connection-Id: c1",
                'If-None-Match: "1", W/"2"',
                "x-b3-traceid: 3",
                "X-B3-SpanId: 4",
                "X-Request-ID: 5",
                "x-request-id: 6",
            ],
            id="conditions, and two ids of which the first counts",
        ),
    ],
)
@pytest.mark.parametrize("replaced", [NONE, frozenset({"accept"}), frozenset({"traceparent", "tracestate"})])
def test_a_head_is_known_without_the_values_that_differ(
    first: Sequence[str], second: Sequence[str], replaced: frozenset[str]
) -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    remember_head(heads, lines_of(*first))
    assert len(heads) == 1
    for more in (first, second, first):
        found, fresh = heads.find(lines_of(*more), None), read(lines_of(*more))
        assert found is not None
        assert fresh is not None
        assert meaning(found, replaced) == meaning(fresh, replaced)


LINES = st.sampled_from(
    [
        *("Connection-Id: c1", "Connection-Id: c2", "connection-id: c3", "connection-Id: c4", "Connection-Id:  c5 "),
        *(
            "Connection-Id: ",
            "Connection-Id:c6",
            "Connection-Id: \xfc",
            "Connection-Id: a\x00b",
            f"Connection-Id: {'i' * 256}",
        ),
        *("Content-Length: 3", "Content-Length: 44", "content-length: 5", "content-Length: 6", "Content-Length: +7"),
        *("Content-Length: ", "Content-Length: 8 ", f"Content-Length: {'9' * 16}", "Transfer-Encoding: chunked"),
        *(f"traceparent: {trace}" for trace in TRACES),
        *(
            f"Traceparent: {TRACES[0]}",
            "traceparent: 00-1-2-01",
            "traceparent: ",
            "TraceParent: x",
            f"traceparent: {KEY}",
        ),
        *(
            "Accept: */*",
            "X-Rate: 5%",
            "Nango-Proxy-Traceparent: y",
            f"X-Key: {KEY}",
            "Connection: close",
            "X-Request-Id: r1",
            "x-request-id: r 2",
            "X-Request-Id: ",
            "x-ReQuest-id: r3",
            "Idempotency-Key: i1",
            "Idempotency-Key:  i2 ",
            "Idempotency-Key: %b\xfc",
            "Idempotency-Key: a\x00b",
            f"idempotency-key: a{KEY}",
            "Nango-Proxy-Idempotency-Key: i3",
            "baggage: b=1",
            "tracestate: s=1",
            "connection-id: c7",
            "Retries: 2",
        ),
    ]
)


NAMES = st.sampled_from(
    [
        *("traceparent", "Traceparent", "tracestate", "X-Request-Id", "x-request-id", "X-REQUEST-ID"),
        *("Idempotency-Key", "idempotency-key", "X-Idempotency-Key", "If-None-Match", "If-Modified-Since", "baggage"),
        *("b3", "x-b3-traceid", "Brace-State", "Accept", "X_Request_Id", "Nango-Proxy-X-Request-Id"),
    ]
)
PLAIN = st.sampled_from([*"0123", *TRACES, "%b", "5%s%%", 'W/"1", "2"', "a b"])
ODD = st.sampled_from(["", "a\tb", "\xfc", "a\nb", f"{KEY}", f"x{KEY}y", KEY[:-1]])
IDS = st.tuples(
    st.sampled_from(["Connection-Id", "connection-id"]), st.just("c1"), st.sampled_from(["c1", "c2", "c3 "])
)
LENGTHS = st.tuples(
    st.sampled_from(["Content-Length", "content-length"]), st.just("3"), st.sampled_from(["0", "44", "+7"])
)
PAIRS = st.builds(
    lambda connection_id, length, varying, fixed, order: order.sample(
        [
            *((f"{name}: {first}", f"{name}: {second}") for name, first, second in (connection_id, *length, *varying)),
            *((line, line) for line in fixed),
        ],
        1 + len(length) + len(varying) + len(fixed),
    ),
    IDS,
    st.lists(LENGTHS, max_size=1),
    st.lists(st.tuples(NAMES, PLAIN, PLAIN | PLAIN | ODD), max_size=4),
    st.just([]) | st.lists(LINES, max_size=2),
    st.randoms(use_true_random=False),
)
REPLACED = st.sets(st.sampled_from(["traceparent", "tracestate", "idempotency-key", "accept", "x-request-id"]))


def passing(lines: bytes, replaced: frozenset[str]) -> bytes:
    """Return the lines to pass on, without remembered heads."""
    head = read(lines)
    assert head is not None
    return head.known.outgoing_lines(replaced, ())


@given(PAIRS, REPLACED)
@example([("Connection-Id: c1", "Connection-Id: c2"), ("b3: 1", "b3: 2"), ("b3: 1", "b3: 3")], set())
def test_a_remembered_head_equals_its_parsed_lines(pairs: list[tuple[str, str]], replaced: set[str]) -> None:
    """The second head has the names of the first one, and other values."""
    first, second = [line for line, _ in pairs], [line for _, line in pairs]
    heads: KnownHeads[KnownHead] = KnownHeads()
    if read(lines_of(*first)) is not None:
        remember_head(heads, lines_of(*first))
    for more in (first, second, first):
        found, fresh = heads.find(lines_of(*more), None), read(lines_of(*more))
        if found is None:
            continue
        if fresh is None:  # then only the ID is invalid, and no connection has this ID
            assert id_fault(found.connection_id, CONNECTION_ID) or len(found.connection_id) > 255
        else:
            assert meaning(found) == meaning(fresh)
            names = frozenset(replaced)  # another form of the same head
            assert found.known.outgoing_lines(names, found.values) == passing(lines_of(*more), names)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(["Connection-Id: c1", "connection-Id: c2"], id="two connections"),
        pytest.param(["Connection-Id: c1", "Connection-Id: c1"], id="a connection twice"),
        pytest.param(["Connection-Id: c1", "Content-Length: 3", "content-length: 3"], id="two lengths"),
        pytest.param(["Connection-Id: c1", "Content-Length: x"], id="a length that is no number"),
        pytest.param(["Connection-Id: c1", "Content-Length: 1234567890123456"], id="a length with too many digits"),
        pytest.param(["Connection-Id: c1", f"traceparent: {KEY}"], id="a trace that holds the key"),
        pytest.param(["Connection-Id: c1", f"Idempotency-Key: x{KEY}"], id="an id that holds the key"),
        pytest.param(["Connection-Id: c1", "Idempotency-Key:  x"], id="an id with a blank before it"),
        pytest.param(["Connection-Id: c1", "Idempotency-Key: x\ty"], id="an id with a tab"),
        pytest.param(["Connection-Id: c1", "Idempotency-Key: "], id="an empty id"),
        pytest.param(["Connection-Id: c1", "Idempotency-Key: \xfc"], id="an id that is not ASCII"),
    ],
)
def test_a_head_that_is_not_plain_is_parsed_each_time(more: Sequence[str]) -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    remember_head(heads, lines_of("Connection-Id: c1"))
    remember_head(heads, lines_of("Connection-Id: c1", "Content-Length: 3"))
    remember_head(heads, lines_of("Connection-Id: c1", f"traceparent: {TRACES[0]}"))
    remember_head(heads, lines_of("Connection-Id: c1", "Idempotency-Key: 1"))
    assert len(heads) == 4
    assert heads.find(lines_of(*more), None) is None


@pytest.mark.parametrize("more", ["Idempotency-Key: i", f"traceparent: {TRACES[0]}"])
def test_a_value_that_contains_the_capability_is_parsed(more: str) -> None:
    """Such a line must be parsed: a line with the key is not forwarded, and only parsing shows whether the line
    contains the key.
    """
    token = "gw_cap_" + "a" * 49
    mount = f"/c/{token}".encode()
    heads: KnownHeads[KnownHead] = KnownHeads()

    def arrives(value: str) -> ArrivedHead[KnownHead] | None:
        lines = lines_of(f"{more.partition(':')[0]}: {value}", usual="Host: gw.example\r\n")
        found = LineReader().read(lines[2:], token, ("crm", "c1"))
        assert found is not None
        known = heads.find(lines, mount)
        if known is None:
            heads.remember(lines, mount, ArrivedHead(KnownHead(mount.decode(), token, found), "c1", None))
        return known

    assert [arrives(value) is not None for value in ("1", "2", "3", f"x{token}", "4")] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_remembered_head_does_not_contain_the_key() -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    remember_head(heads, lines_of("Connection-Id: c1", "Idempotency-Key: 1"))
    found = heads.find(lines_of("Connection-Id: c1", "Idempotency-Key: 2"), None)
    assert found is not None
    assert KEY not in repr([getattr(found.known, name) for name in KnownHead.__slots__])


@pytest.mark.parametrize("minted", ["y", TRACES[0]])
def test_a_trace_that_another_field_replaces_is_not_remembered(minted: str) -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    fields = ["Connection-Id: c1", f"traceparent: {TRACES[0]}", f"Nango-Proxy-Traceparent: {minted}"]
    remember_head(heads, lines_of(*fields))
    assert heads.find(lines_of(*fields), None) is None


@pytest.mark.parametrize("lines", [("X-Request-Id:a", "X-Request-Id: %s"), ("b3:\ta", "b3: %s", "b3: b")])
def test_repeated_lines_in_different_spelling_keep_their_order(lines: Sequence[str]) -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    remember_head(heads, lines_of("Connection-Id: c1", *(line.replace("%s", "a") for line in lines)))
    second = lines_of("Connection-Id: c1", *(line.replace("%s", "c") for line in lines))
    found, fresh = heads.find(second, None), read(second)
    assert fresh is not None
    assert found is None or meaning(found, NONE) == meaning(fresh, NONE)


def test_a_value_with_line_breaks_is_not_mistaken_for_a_known_head() -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    remember_head(heads, lines_of("Connection-Id: c1", "Accept: a", "b3: 1", "X-Last: z"))
    for value in ("ab3\r\nX-Last: z", "a\r\nb3:1\r\nX-Last: z", "a\r\nb3: 1 \r\nX-Last: z", "a\r\nB3: 1\r\nX-Last: z"):
        assert heads.find(lines_of("Connection-Id: c1", f"Accept: {value}"), None) is None


def test_an_empty_value_is_not_a_missing_one() -> None:
    heads: KnownHeads[KnownHead] = KnownHeads()
    remember_head(heads, lines_of("Connection-Id: c1", "Accept: */*"))
    found = heads.find(lines_of("Connection-Id: ", "Accept: */*"), None)
    assert found is not None
    assert found.connection_id == ""
    assert heads.find(lines_of("Accept: */*"), None) is None


def test_defaults_are_those_of_the_entry_and_the_head() -> None:
    found = read(lines_of("Connection-Id: c1", "Accept: */*"))
    assert found is not None
    placement = Placement(
        slots=(("authorization", "x"),), defaults=(("Accept", "a/b"), ("X-Version", "1"), ("Content-Type", "t/t"))
    )
    for _ in range(2):
        assert found.known.defaults(NONE, placement, has_body=False) == b"X-Version: 1\r\n"
        assert found.known.defaults(NONE, placement, has_body=True) == b"X-Version: 1\r\nContent-Type: t/t\r\n"
        assert (
            found.known.defaults(frozenset({"accept"}), placement, has_body=False) == b"Accept: a/b\r\nX-Version: 1\r\n"
        )


def test_remembered_forms_of_a_head_are_limited() -> None:
    found = read(lines_of("Connection-Id: c1", "Accept: */*"))
    assert found is not None
    for number in range(100):
        placement = Placement(defaults=(("X-Number", str(number)),))
        replaced = frozenset({f"x-{number}"})
        assert found.known.defaults(replaced, placement, has_body=False) == b"X-Number: %d\r\n" % number
        assert found.known.outgoing_lines(replaced, ()) == b"Accept: */*\r\n"
    sizes = [len(value) for value in gc.get_referents(found.known) if isinstance(value, dict)]
    assert 0 < max(sizes) <= known_heads.MAX_FORMS


# ── Messages to the MCP endpoint.

TOKEN = "gw_cap_" + "a" * 49
BELOW_CAPABILITY = f"/c/{TOKEN}".encode()
FIELDS = st.sampled_from(
    [
        *("traceparent", "Traceparent", "TRACEPARENT", "Craceparent", "content-Length"),
        *("tracestate", "TraceState", "baggage", "sentry-trace", "b3", "x-b3-traceid"),
        *("X-Request-Id", "x-request-id", "Request-Id", "X-Correlation-Id", "Idempotency-Key", "x-datadog-trace-id"),
        *("Mcp-Method", "mcp-method", "MCP-Name", "mcp-name", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp_Name"),
        *("Accept", "User-Agent", "X-Other", "Content-Type", "content-length", "Connection-Id", "connection"),
    ]
)
VALUES = st.sampled_from(
    ["", "1", "tools/call", "get_issue", "%b", "a b", " c", "d\te", "\xfc", "keep-alive", f"x{KEY}", f"x{TOKEN}y"]
)


def lines_of_message(mount: bytes | None, *more: str) -> bytes:
    """Return the header lines of a message, with a length if `more` has none."""
    key = "" if mount else f"Authorization: Bearer {KEY}\r\n"
    length = "" if any(line.lower().startswith("content-length") for line in more) else "Content-Length: 3\r\n"
    return lines_of(*more, usual=f"Host: gw.example\r\n{key}Content-Type: application/json\r\n{length}")


def read_message(lines: bytes, mount: bytes | None) -> ArrivedHead[KnownMessage] | None:
    """Parse the lines of a message without remembered heads."""
    return fast_message.read_head(LineReader(), lines, mount)


def meaning_of_message(head: ArrivedHead[KnownMessage]) -> tuple[object, ...]:
    known = head.known
    fields = known.fields_of(head)._replace(head_id=None)
    return fields, head.length, head.request_id, head.traceparent, known.key_digest, known.mount


@given(
    st.sampled_from([None, BELOW_CAPABILITY]),
    st.lists(st.tuples(FIELDS, VALUES, VALUES), max_size=5),
    st.sampled_from(["Content-Length: 3", "content-length: 44", "Content-Length: 0"]),
)
@example(None, [("Craceparent", "1", "2"), ("TRACEPARENT", "1", "1")], "Content-Length: 3")
@example(None, [("TRACEPARENT", "1", "1"), ("traceparent", "1", "2")], "Content-Length: 3")
@example(None, [("traceparent", "1", "2"), ("TRACEPARENT", "1", "1")], "Content-Length: 3")
def test_a_remembered_message_head_equals_its_parsed_lines(
    mount: bytes | None, fields: list[tuple[str, str, str]], length: str
) -> None:
    """`fields`: name, value of the first message, value of the second message."""
    heads: KnownHeads[KnownMessage] = KnownHeads()
    first, second = (lines_of_message(mount, *(f"{each[0]}: {each[at]}" for each in fields), length) for at in (1, 2))
    for _ in range(2):
        arrived = read_message(first, mount)
        if arrived is not None:
            heads.remember(first, mount, arrived)
            assert meaning_of_message(arrived) == meaning_of_message(read_message(first, mount) or arrived)
    for lines in (first, second):
        found, fresh = heads.find(lines, mount), read_message(lines, mount)
        if found is not None:
            assert fresh is not None
            assert meaning_of_message(found) == meaning_of_message(fresh)
    for secret in (KEY, TOKEN):
        if (secret == TOKEN) is (mount is not None):
            assert secret not in texts_in(heads.known).replace(f"/c/{TOKEN}", "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            ["TraceState: a=1", "tracestate: b=1"], ["TraceState: a=1", "tracestate: b=2"], id="the first counts"
        ),
        pytest.param(["tracestate: a=1", "tracestate: b=1"], ["tracestate: a=2", "tracestate: b=2"], id="two states"),
        pytest.param(["MCP-NAME: a", "Mcp-Name: b"], ["MCP-NAME: a", "Mcp-Name: c"], id="two names"),
        pytest.param(["MCP-Other: a", "mcp-method: b"], ["MCP-Other: a", "mcp-method: c"], id="another field of MCP"),
        pytest.param(["X-Request-Id: a", "traceparent: x"], ["X-Request-Id: not fit", "traceparent: y"], id="ids"),
    ],
)
@pytest.mark.parametrize("mount", [None, BELOW_CAPABILITY])
def test_a_message_with_other_values_is_known(mount: bytes | None, first: list[str], second: list[str]) -> None:
    heads: KnownHeads[KnownMessage] = KnownHeads()
    for _ in range(2):
        arrived = read_message(lines_of_message(mount, *first), mount)
        assert arrived is not None
        heads.remember(lines_of_message(mount, *first), mount, arrived)
    for more in (second, first):
        found = heads.find(lines_of_message(mount, *more), mount)
        fresh = read_message(lines_of_message(mount, *more), mount)
        assert found is not None
        assert fresh is not None
        assert meaning_of_message(found) == meaning_of_message(fresh)


@pytest.mark.parametrize("more", [[], ["tracestate: a=1"]])
@pytest.mark.parametrize(("mount", "secret"), [(None, KEY), (BELOW_CAPABILITY, TOKEN)])
def test_a_message_that_repeats_its_key_is_not_remembered(mount: bytes | None, secret: str, more: list[str]) -> None:
    heads: KnownHeads[KnownMessage] = KnownHeads()
    lines = lines_of_message(mount, f"X-Copy: a{secret}", *more)
    for _ in range(3):
        arrived = read_message(lines, mount)
        assert arrived is not None
        heads.remember(lines, mount, arrived)
    assert len(heads) == 0


def test_a_message_is_known_without_the_values_that_differ() -> None:
    heads: KnownHeads[KnownMessage] = KnownHeads()
    names = ("traceparent", "tracestate", "baggage", "x-request-id", "mcp-method", "mcp-name", "mcp-session-id")
    of_number = [
        lines_of_message(None, *(f"{name}: {name}-{number}" for name in names), f"content-length: {number}")
        for number in range(1, 5)
    ]
    for lines in of_number[:2]:
        arrived = read_message(lines, None)
        assert arrived is not None
        heads.remember(lines, None, arrived)
    for number, lines in enumerate(of_number, 1):
        found = heads.find(lines, None)
        assert found is not None
        fields = found.known.fields_of(found)
        assert (found.length, found.request_id) == (number, f"x-request-id-{number}")
        assert (fields.traceparent, fields.tracestate) == (f"traceparent-{number}", f"tracestate-{number}")
        assert list(fields.mcp_fields) == [(name, f"{name}-{number}") for name in names[4:]]
        assert fields.head_id is not None
    assert heads.find(of_number[0].replace(b"baggage-1", KEY.encode()), None) is None

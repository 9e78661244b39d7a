"""The parser finds the end of a body, no matter where the bytes are cut."""

import pytest

from gateway.http.response_head import MalformedMessage
from gateway.server.strict_framing import RequestBodyFraming

CHUNKED = b"5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"


def feed_pieces(body: RequestBodyFraming, pieces: list[bytes]) -> tuple[bytes, bytes]:
    out = following = b""
    for piece in pieces:
        if body.ended:
            following += piece
            continue
        sent, rest = body.feed(piece)
        out, following = out + sent, following + rest
    return out, following


@pytest.mark.parametrize("at", range(1, len(CHUNKED) + 3))
def test_chunks_cut_anywhere_make_the_same_body(at: int) -> None:
    data = CHUNKED + b"GET"
    body = RequestBodyFraming(None)
    out, following = feed_pieces(body, [data[:at], data[at:]])
    result = b"".join(line for number, line in enumerate(out.split(b"\r\n")) if number % 2)
    assert (result, following, body.ended, body.received) == (b"hello!", b"GET", True, 6)
    assert out.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("at", range(1, 9))
def test_a_body_with_a_length_may_arrive_in_any_two_pieces(at: int) -> None:
    data = b"helloGET"
    body = RequestBodyFraming(5)
    assert feed_pieces(body, [data[:at], data[at:]]) == (b"hello", b"GET")
    assert (body.ended, body.received, body.left_bytes) == (True, 5, 0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"5\nhello\r\n", id="a size line that ends in LF"),
        pytest.param(b"-5\r\nhello\r\n", id="a sign"),
        pytest.param(b"0x5\r\nhello\r\n", id="a prefix"),
        pytest.param(b"5\r\nhelloX\r\n", id="a chunk longer than it says"),
        pytest.param(b"0\r\nContent-Length: 5\r\n\r\n", id="a trailer that declares a length"),
        pytest.param(b"0\r\ntransfer_encoding: chunked\r\n\r\n", id="a trailer that declares a coding"),
        pytest.param(b"1;" + b"x" * 1000 + b"\r\na\r\n", id="none"),
    ],
)
def test_ambiguous_chunk_is_refused(data: bytes, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.id == "none":
        assert RequestBodyFraming(None).feed(data)[0] == b"1\r\na\r\n"
        return
    with pytest.raises(MalformedMessage):
        RequestBodyFraming(None).feed(data)


def test_framing_that_outgrows_its_body_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        RequestBodyFraming(None).feed(20 * (b"1;" + b"x" * 1000 + b"\r\na\r\n"))

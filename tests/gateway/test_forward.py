"""What goes through /proxy unchanged, and what does not go through at all: raw bytes on both sides."""

from tests.fakes.proxy_end import gateway_to, opened_at
from tests.fakes.raw_provider import raw_provider


async def test_a_get_arrives_with_the_credential_and_nothing_of_ours() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        answer = await gateway.call("/proxy/rest/api?x=1", "X-Custom: yes", "User-Agent: curl/8", "Cookie: a=b")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok")
    assert provider.request_line() == "GET /rest/api?x=1 HTTP/1.1"
    assert provider.lines() == [
        f"Host: 127.0.0.1:{provider.port}",
        "X-Custom: yes",
        "User-Agent: curl/8",
        "Cookie: a=b",
        "Authorization: Bearer at-1",
    ]

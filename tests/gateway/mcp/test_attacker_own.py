import json
from aiohttp import web
from tests.fakes.agents import Agents
async def test_x(door: Agents) -> None:
    key = await door.key("* /base/v1/x")
    for n in (100, 30000, 524189):
        m = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_api","arguments":{"method":"POST","path":"/x","body_as":"form","body":{"a":[' + b"1," * n + b"1]}}}}"
        for _ in range(4):
            s, b = await door.posted(m, {"Authorization": f"Bearer {key}"})
            print(n, len(m), s, str(b)[:200])

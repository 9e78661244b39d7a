"""The receiver that opens docs/events.md verifies what the gateway signs."""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException, Request

from gateway.events.signatures import new_signing_key, signature_fields

PAGE = (Path(__file__).parents[3] / "docs" / "events.md").read_text()
BODY = json.dumps({"type": "auth", "event": "connection.created"}).encode()


def request(body: bytes, fields: Mapping[str, str]) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


async def test_receiver_accepts_signed_events_and_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    key = new_signing_key()
    monkeypatch.setenv("SIGNING_KEY", key.reveal())
    snippet = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert snippet is not None
    names: dict[str, Any] = {}
    exec(compile(snippet[1], "docs/events.md", "exec"), names)
    fields = signature_fields(BODY, "msg_1", int(time.time()), [key])
    assert await names["receive"](request(BODY, fields)) is None
    with pytest.raises(HTTPException) as refused:
        await names["receive"](request(BODY + b" ", fields))
    assert refused.value.status_code == 401

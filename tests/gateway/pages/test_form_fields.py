"""Form bodies of the gateway's pages, as any client may send them."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from gateway.errors import InvalidRequest, Issue
from gateway.pages import form_fields
from gateway.pages.form_fields import URLENCODED, FormField, read_form, with_posted_values
from gateway.server.runner import MAX_FIELD_BYTES
from tests.fakes.scaling import linear_fault

CONTENT_TYPES = [URLENCODED + ";{}", "a/b;{}", URLENCODED + '; a="{}', URLENCODED + "; a=b{}; c*0*=d"]


def request(content_type: str, body: bytes) -> web.Request:
    protocol: Any = type("Protocol", (), {"_reading_paused": False, "resume_reading": lambda self, **_: None})()
    content = StreamReader(protocol, 1 << 16, loop=asyncio.get_running_loop())
    content.feed_data(body)
    content.feed_eof()
    app = web.Application()
    return cast(
        web.Request,
        make_mocked_request("POST", "/oauth/site", {"Content-Type": content_type}, app=app, payload=content),
    )


@pytest.mark.parametrize("shape", CONTENT_TYPES)
def test_a_long_content_type_is_parsed_in_linear_time(shape: str) -> None:
    different = (f"x{number}" for number in count())  # aiohttp caches the last few

    async def read(content_type: str) -> None:
        try:
            await read_form(request(content_type, b"a=b"), 1000)
        except InvalidRequest:
            return

    def work(size: int) -> Callable[[], object]:
        content_type = shape.format(";" * (size - len(shape)))
        return lambda: asyncio.run(read(content_type + next(different)))

    assert linear_fault(work, MAX_FIELD_BYTES) == ""


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"token=a+b%26c&site=", {"token": "a b&c", "site": ""}),
        (b"site=caf%C3%A9&site=x", {"site": "x"}),
        (b"", {}),
    ],
)
async def test_form_fields_are_read_as_browsers_send_them(body: bytes, fields: dict[str, str]) -> None:
    assert await read_form(request(f"{URLENCODED.title()} ; charset=UTF-8", body), 1000) == fields


@pytest.mark.parametrize("body", [b"token=%ff", b"token=\xc3\xa9", b"a&" * 400])
async def test_a_body_that_no_browser_sends_is_refused(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_fields, "MAX_FORM_FIELDS", 300)
    with pytest.raises(InvalidRequest):
        await read_form(request(URLENCODED, body), 1000)


def test_an_error_at_an_input_has_the_title_that_the_end_user_sees() -> None:
    name = "credentials[apiKey]"
    key = FormField(name=name, group="credentials", key="apiKey", id="field-1", title="API key", secret=True)
    faults = [Issue("too_big", "'apiKey' may have at most 1024 characters.", ("credentials", "apiKey"))]
    (shown,) = with_posted_values([key], {name: "x"}, faults)
    assert (shown.value, shown.fault) == ("", "'API key' may have at most 1024 characters.")

"""The arguments of a call are converted to the URL and header fields that the gateway reads."""

import pytest

from gateway.client.calls import Options, Params, header_fields, paginate_header, proxied_url, query_string
from gateway.client.client_errors import retry_after_seconds
from gateway.http.paging.paginate_header import parse_paginate_header

BASE = "https://gw.example.com/prefix"


@pytest.mark.parametrize(
    ("endpoint", "params", "target"),
    [
        ("/x", None, "/x"),
        ("x", None, "/x"),
        ("", None, ""),
        ("?q=1", None, "?q=1"),
        ("/a%2Fb/ö/{c} d", None, "/a%2Fb/%C3%B6/%7Bc%7D%20d"),
        ("/x#y\\z", None, "/x%23y%5Cz"),
        ("/x", {"q": "a b&c=/+ü"}, "/x?q=a%20b%26c%3D%2F%2B%C3%BC"),
        ("/x?y=%20", {"a": 1, "b": True, "c": None, "d": 1.5}, "/x?y=%20&a=1&b=true&d=1.5"),
        ("/x", {"id": [1, 2], "none": []}, "/x?id=1&id=2"),
        ("/x", [("a", 1), ("a", 2)], "/x?a=1&a=2"),
        ("/x", {"page[size]": 5}, "/x?page%5Bsize%5D=5"),
        (f"{BASE}/proxy/x?page=2", {"a": 1}, "/x?page=2&a=1"),
    ],
)
def test_an_endpoint_is_appended_and_its_encoding_kept(endpoint: str, params: Params | None, target: str) -> None:
    assert proxied_url(BASE, endpoint, params) == f"{BASE}/proxy{target}"


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://api.github.com/repos/a/b?page=2&token=t0k",
        "HTTP://api.github.com",
        " https://api.github.com/",
        "//api.github.com/repos/a/b",
        "ftp://files.example.com/x",
        f"{BASE}/proxyx/y",
        "https://gw.example.com/proxy/x",
    ],
)
def test_absolute_url_is_refused_with_a_hint(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"is an absolute URL.*paginate.*base_url_override") as refused:
        proxied_url(BASE, endpoint, None)
    assert "t0k" not in str(refused.value)
    assert endpoint.partition("?")[0] in str(refused.value)


@pytest.mark.parametrize("endpoint", ["/https://x.example/y", "/x?u=https://x.example/", "a:b//c", "x//y"])
def test_a_path_can_contain_a_url(endpoint: str) -> None:
    assert proxied_url(BASE, endpoint, None).startswith(f"{BASE}/proxy/")


def test_without_parameters_there_is_no_query() -> None:
    assert (query_string(None), query_string({}), query_string({"a": None})) == ("", "", "")


def test_each_option_becomes_its_header() -> None:
    headers: Options = {"provider_config_key": "jira", "connection_id": "u1"}
    assert header_fields(headers) == {"Provider-Config-Key": "jira", "Connection-Id": "u1"}
    everything: Options = {
        **headers,
        "base_url_override": "https://other.example.com",
        "headers": {"X-Mine": "1"},
        "retries": 0,
        "retry_on": [409, 423],
        "timeout_s": 2.5,
        "decompress": False,
    }
    assert header_fields(everything) == {
        "X-Mine": "1",
        "Provider-Config-Key": "jira",
        "Connection-Id": "u1",
        "Base-Url-Override": "https://other.example.com",
        "Retries": "0",
        "Retry-On": "409,423",
        "Gateway-Timeout": "2.5",
        "Decompress": "false",
    }
    assert header_fields({**headers, "timeout_s": 30})["Gateway-Timeout"] == "30"


@pytest.mark.parametrize("missing", ["provider_config_key", "connection_id"])
def test_a_name_that_is_missing_is_reported(missing: str) -> None:
    reference = {"provider_config_key": "jira", "connection_id": "u1"}
    del reference[missing]
    with pytest.raises(ValueError, match=missing):
        header_fields(reference)  # type: ignore[arg-type]


def test_gateway_parses_the_headers_that_the_client_writes() -> None:
    fields = {
        "type": "cursor",
        "cursor_path_in_response": '@odata."next\\',
        "limit_name_in_request": "page[size]",
        "offset_start_value": 1,
    }
    read = parse_paginate_header(paginate_header(3, 50, fields))
    assert (read.pages, read.limit, read.marks) == (3, 50, True)
    assert read.fields == {name: str(value) for name, value in fields.items()}
    assert parse_paginate_header(paginate_header(None, None, None)).pages is None


@pytest.mark.parametrize("value", ["ü", "a\nb", "\x7f"])
def test_invalid_header_value_is_reported(value: str) -> None:
    with pytest.raises(ValueError, match="response_path"):
        paginate_header(None, None, {"response_path": value})


@pytest.mark.parametrize(
    ("text", "wait"), [("5", 5.0), ("", None), ("soon", None), ("Sat, 01 Jan 2000 00:00:00 GMT", 0.0), ("-1", None)]
)
def test_retry_after_may_be_seconds_or_a_date(text: str, wait: float | None) -> None:
    assert retry_after_seconds(text) == wait

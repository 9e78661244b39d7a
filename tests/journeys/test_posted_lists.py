"""Lists that are requested by POST, with paging in a JSON body or in GraphQL, and with a separate path for later pages."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.lists import PagedReply, paged

SEARCH = {
    "type": "cursor",
    "in_body": True,
    "applies_to": "/objects/{kind}/search",
    "cursor_path_in_response": "paging.next.after",
    "cursor_name_in_request": "after",
    "limit_name_in_request": "limit",
    "response_path": "results",
}
FOLDERS = {
    "type": "cursor",
    "in_body": True,
    "applies_to": "/files/list_folder",
    "next_path_in_request": "{path}/continue",
    "cursor_path_in_response": "cursor",
    "cursor_name_in_request": "cursor",
    "has_more_path_in_response": "has_more",
    "response_path": "entries",
}
GRAPHQL = {"type": "graphql", "applies_to": "/graphql", "limit_name_in_request": "variables.first"}
QUERY = "query($first: Int, $after: String) { team { issues(first: $first, after: $after) { nodes { n } } } }"


class Provider:
    """Responds to each request with the result of `page`, which gets the parsed body. `bodies`: the bodies as received."""

    def __init__(self, page: Callable[[web.Request, Any], Any]) -> None:
        self.bodies: list[bytes] = []
        self.page = page

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        response = self.page(request, json.loads(self.bodies[-1] or b"null"))
        if isinstance(response, web.StreamResponse):
            return response
        return web.json_response(await response if isinstance(response, Awaitable) else response)

    @property
    def sent(self) -> list[Any]:
        return [json.loads(body) for body in self.bodies]


def cursor_pages(count: int = 3, size: int = 2) -> Provider:
    """Return a page function for `count` pages. Their cursor is a number, and must be sent back as a number."""

    def page(_request: web.Request, body: Any) -> Any:
        after = body.get("after", 0)
        assert isinstance(after, int), after
        results = [{"n": after * size + index} for index in range(1, size + 1)]
        more = {"paging": {"next": {"after": after + 1}}} if after + 1 < count else {}
        return {"total": count * size, "results": results, **more}

    return Provider(page)


def graphql_pages(count: int = 3, size: int = 2, **extra: Any) -> Provider:
    """Return a page function for `count` pages of a GraphQL connection. `extra`: other members next to the connection."""

    def page(_request: web.Request, body: Any) -> Any:
        number = int((body["variables"].get("after") or "c0")[1:])
        nodes = [{"n": number * size + index, "tags": {"pageInfo": {}}} for index in range(1, size + 1)]
        info = {"hasNextPage": number + 1 < count, "endCursor": f"c{number + 1}"}
        return {"data": {"viewer": {"id": 1}, "team": {"issues": {"nodes": nodes, "pageInfo": info}, **extra}}}

    return Provider(page)


def refusal_message(reply: PagedReply) -> str:
    """Return the message of a reply. The reply must be a 400 about the pagination headers."""
    assert (reply.status, reply.headers["Gateway-Error"]) == (400, "invalid_headers"), reply.body
    assert all(issue["path"][0].startswith("gateway-paginate") for issue in reply.error["errors"])
    return str(reply.error["message"])


async def test_the_cursor_is_sent_in_the_body_whose_other_bytes_stay_the_same(tmp_path: Path) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        body = b'{ "price":1.10, "big":12345678901234567890123,\n"query": {"a":"b"}}'
        headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
        reply = await paged_gateway.call("all; limit=2", "/objects/x/search", method="POST", data=body, headers=headers)
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
        assert reply.headers["Gateway-Paginate"] == "all;type=cursor"
        assert [sent.get("after") for sent in provider.sent] == [None, 1, 2]
        assert all(b'"price":1.10' in sent and b"12345678901234567890123" in sent for sent in provider.bodies)
        assert all(sent["limit"] == 2 and sent["query"] == {"a": "b"} for sent in provider.sent)
        assert all("Idempotency-Key" not in fields for fields in paged_gateway.lists.headers)
        assert all(fields["x-api-key"] for fields in paged_gateway.lists.headers)
        assert all(fields["Content-Type"] == "application/json" for fields in paged_gateway.lists.headers)


async def test_gateway_cursor_is_valid_only_with_the_same_body(tmp_path: Path) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        path = "/objects/x/search"
        first = await paged_gateway.call("1", path, method="POST", json={"q": 1})
        assert first.numbers == [1, 2]
        cursor = first.trailer["cursor"]
        count = len(provider.bodies)
        assert "another request" in refusal_message(
            await paged_gateway.call("1", path, method="POST", json={"q": 2}, since=cursor)
        )
        assert "another request" in refusal_message(await paged_gateway.call("1", path, since=cursor))
        assert len(provider.bodies) == count
        rest = await paged_gateway.call(None, path, method="POST", json={"q": 1}, since=cursor)
        assert (rest.numbers, rest.trailer["complete"]) == ([3, 4, 5, 6], True)


async def test_the_cursor_of_a_get_is_refused_for_a_post(tmp_path: Path) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, SEARCH, paginate_alternatives=[]) as paged_gateway:
        paginate = "1; type=offset; offset_name=start; response_path=results"
        provider.page = lambda _request, _body: {"results": [{"n": 1}]}
        first = await paged_gateway.call(paginate, "/objects/x/search")
        reply = await paged_gateway.call(
            "1", "/objects/x/search", method="POST", json={}, since=first.trailer["cursor"]
        )
        assert "the method of the first request" in refusal_message(reply)


async def test_a_post_that_is_not_declared_as_a_list_is_refused_and_not_sent(tmp_path: Path) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        for path, paginate in (
            ("/objects/x", "all"),
            ("/objects/x/search/more", "all"),
            ("/objects", "all; type=cursor"),
            ("/objects", "all; type=cursor; cursor_path=next; cursor_name=after"),
            ("/objects", "all; type=offset; offset_name=start; in_body=?0"),
        ):
            reply = await paged_gateway.call(paginate, path, method="POST", json={"name": "new"})
            assert "in_body" in refusal_message(reply), (path, paginate)
        assert provider.bodies == []


async def test_the_caller_may_declare_a_post_as_a_list(tmp_path: Path) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, None) as paged_gateway:
        paginate = "all; in_body; type=cursor; cursor_path=paging.next.after; cursor_name=after; response_path=results"
        reply = await paged_gateway.call(paginate, "/anything", method="POST", json={})
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
        assert "POST" in refusal_message(await paged_gateway.call(paginate, "/anything"))


@pytest.mark.parametrize(
    ("calculation", "start", "steps"), [("per-page", 1, [1, 2, 3, 4]), ("by-response-size", None, [None, 2, 4, 6])]
)
async def test_an_offset_or_a_page_number_is_increased_in_the_body(
    tmp_path: Path, calculation: str, start: int | None, steps: list[int]
) -> None:
    def page(_request: web.Request, body: Any) -> Any:
        at = body.get("options", {}).get("offset", 0)
        first = (at - 1) * 2 if calculation == "per-page" else at
        return {"items": [{"n": number} for number in range(first + 1, min(first + 2, 6) + 1)]}

    provider = Provider(page)
    pagination = {
        "type": "offset",
        "in_body": True,
        "applies_to": "/items/get",
        "offset_name_in_request": "options.offset",
        "offset_calculation_method": calculation,
        "response_path": "items",
    } | ({} if start is None else {"offset_start_value": start})
    async with paged(tmp_path, provider, pagination) as paged_gateway:
        reply = await paged_gateway.call("all", "/items/get", method="POST", json={"options": {"count": 2}})
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
        assert [sent["options"].get("offset") for sent in provider.sent] == steps
        assert all(sent["options"]["count"] == 2 for sent in provider.sent)
        if start is not None:
            own = await paged_gateway.call("1", "/items/get", method="POST", json={"options": {"offset": 3}})
            assert own.numbers == [5, 6]


async def test_later_pages_may_have_another_path_and_another_body(tmp_path: Path) -> None:
    def page(request: web.Request, body: Any) -> Any:
        if request.path == "/v1/files/list_folder":
            return {"entries": [{"n": 1}, {"n": 2}], "cursor": "c1", "has_more": True}
        assert request.path == "/v1/files/list_folder/continue"
        assert body in ({"cursor": "c1"}, {"cursor": "c2"})
        last = body["cursor"] == "c2"
        return {"entries": [{"n": 5 if last else 3}], "cursor": "c2", "has_more": not last}

    provider = Provider(page)
    async with paged(tmp_path, provider, FOLDERS) as paged_gateway:
        body = {"path": "", "recursive": True}
        reply = await paged_gateway.call("all", "/files/list_folder", method="POST", json=body)
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 5], True)
        first = await paged_gateway.call("1", "/files/list_folder", method="POST", json=body)
        rest = await paged_gateway.call(
            "all", "/files/list_folder", method="POST", json=body, since=first.trailer["cursor"]
        )
        assert rest.numbers == [3, 5]


@pytest.mark.parametrize("path", ["https://evil.example/x", "x", "/a/../b", "/a?b=c", "/a%2f..", "{path}/{other}"])
async def test_an_unsafe_path_for_later_pages_is_refused(tmp_path: Path, path: str) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        paginate = f'all; in_body; type=cursor; cursor_path=c; cursor_name=c; next_path="{path}"'
        assert "next_path_in_request" in refusal_message(
            await paged_gateway.call(paginate, "/x", method="POST", json={})
        )
        assert provider.bodies == []


async def test_the_rules_of_a_key_apply_to_the_path_of_later_pages(tmp_path: Path) -> None:
    def page(request: web.Request, _body: Any) -> Any:
        return {"entries": [{"n": 1}], "cursor": "c1", "has_more": not request.path.endswith("continue")}

    async with paged(tmp_path, Provider(page), FOLDERS) as paged_gateway:
        limits = {"connections": ["tracker/c1"], "rules": ["POST /v1/files/list_folder"]}
        body = {"display_name": "narrow", "limits": limits}
        minted = await paged_gateway.gateway.json("POST", "/environment/api-keys", json=body, expect=200)
        headers = {"Authorization": f"Bearer {minted['data']['secret']}"}
        reply = await paged_gateway.call("all", "/files/list_folder", method="POST", json={}, headers=headers)
        assert (reply.numbers, reply.trailer["complete"]) == ([1], False)
        assert reply.trailer["error"]["status"] == 403


async def test_a_graphql_connection_at_any_depth_is_read_to_its_end(tmp_path: Path) -> None:
    provider = graphql_pages()
    async with paged(tmp_path, provider, GRAPHQL) as paged_gateway:
        body = {"query": QUERY, "variables": {"team": "ACME"}}
        reply = await paged_gateway.call("all; limit=2", "/graphql", method="POST", json=body)
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
        assert [sent["variables"] for sent in provider.sent] == [
            {"team": "ACME", "first": 2},
            {"team": "ACME", "first": 2, "after": "c1"},
            {"team": "ACME", "first": 2, "after": "c2"},
        ]
        first = await paged_gateway.call("1", "/graphql", method="POST", json=body)
        rest = await paged_gateway.call(None, "/graphql", method="POST", json=body, since=first.trailer["cursor"])
        assert rest.numbers == [3, 4, 5, 6]


async def test_variables_are_added_for_the_cursor_if_the_body_has_none(tmp_path: Path) -> None:
    provider = graphql_pages()
    provider.page = lambda _request, body: {
        "data": {"a": {"edges": [{"n": 1 if body.get("variables") is None else 2}], "pageInfo": {
            "hasNextPage": body.get("variables") is None, "endCursor": "c1"}}}
    }  # fmt: skip
    async with paged(tmp_path, provider, None) as paged_gateway:
        reply = await paged_gateway.call(
            "all; type=graphql", "/api", method="POST", json={"query": QUERY, "variables": None}
        )
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2], True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"query": "mutation($after: String) { remove(after: $after) { ok } }"}, "mutation"),
        ({"query": "query A($after: String) { a } # }\rmutation B { b }"}, "mutation"),
        ({"query": 'query A($after: String) { a(b: "}") } subscription S { s }'}, "subscription"),
        ({"query": "{ things { nodes { id } } }"}, "$after"),
        ({"query": 'query A { a(b: "$after") }'}, "$after"),
        ({"id": "stored"}, "its document in query"),
        ({"query": QUERY, "variables": "{}"}, "variables.after"),
        ([{"query": QUERY}], "object"),
    ],
)
async def test_graphql_that_writes_or_has_no_place_for_the_cursor_is_refused(
    tmp_path: Path, body: Any, says: str
) -> None:
    provider = graphql_pages()
    async with paged(tmp_path, provider, GRAPHQL) as paged_gateway:
        assert says in refusal_message(await paged_gateway.call("all", "/graphql", method="POST", json=body))
        assert provider.bodies == []


@pytest.mark.parametrize(
    ("response", "says"),
    [
        ({"errors": [{"message": "no such field"}], "data": None}, "no such field"),
        ({"data": {"a": {"nodes": []}}}, "endCursor hasNextPage"),
        ({"data": {"a": {"nodes": [], "pageInfo": {"endCursor": "x"}}}}, "hasNextPage"),
        ({"data": {"a": {"pageInfo": {"hasNextPage": False}}}}, "nodes"),
        ({"data": {"a": {"pageInfo": {}, "nodes": []}, "b": {"pageInfo": {}, "nodes": []}}}, "data.a, data.b"),
    ],
)
async def test_a_graphql_page_without_its_connection_is_an_error_and_not_an_empty_list(
    tmp_path: Path, response: Any, says: str
) -> None:
    provider = Provider(lambda _request, _body: response)
    async with paged(tmp_path, provider, GRAPHQL) as paged_gateway:
        reply = await paged_gateway.call("all", "/graphql", method="POST", json={"query": QUERY})
        if reply.status == 502:
            error = reply.error
        else:
            assert not reply.trailer["complete"]
            error = reply.trailer["error"]
        assert error["code"] == "page_unreadable"
        assert says in error["message"]


async def test_caller_selects_one_of_two_graphql_connections(tmp_path: Path) -> None:
    provider = graphql_pages(labels={"nodes": [], "pageInfo": {"hasNextPage": False}})
    async with paged(tmp_path, provider, GRAPHQL) as paged_gateway:
        body = {"query": QUERY, "variables": {}}
        reply = await paged_gateway.call("all; response_path=data.team.issues", "/graphql", method="POST", json=body)
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)


async def test_a_provider_that_ignores_the_cursor_is_detected(tmp_path: Path) -> None:
    provider = graphql_pages()
    provider.page = lambda _request, _body: {
        "data": {"a": {"nodes": [{"n": 1}], "pageInfo": {"hasNextPage": True, "endCursor": "same"}}}
    }
    async with paged(tmp_path, provider, GRAPHQL) as paged_gateway:
        reply = await paged_gateway.call("all", "/graphql", method="POST", json={"query": QUERY})
        assert reply.trailer["error"]["code"] == "next_page_refused"
        assert len(provider.bodies) <= 3


@pytest.mark.parametrize("status", [429, 503])
async def test_a_page_that_gets_429_or_503_is_requested_again_with_the_same_body(tmp_path: Path, status: int) -> None:
    provider = cursor_pages()
    inner, refused = provider.page, []

    def page(request: web.Request, body: Any) -> Any:
        if body.get("after", 0) in (0, 1) and body.get("after", 0) not in refused:
            refused.append(body.get("after", 0))
            return web.Response(status=status, headers={"Retry-After": "0"})
        return inner(request, body)

    provider.page = page
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        reply = await paged_gateway.call("all", "/objects/x/search", method="POST", json={"q": "x"})
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2, 3, 4, 5, 6], True)
        assert [sent.get("after") for sent in provider.sent] == [None, None, 1, 1, 2]
        assert all(sent["q"] == "x" for sent in provider.sent)


async def test_a_body_that_is_too_large_or_not_a_json_object_is_not_sent(tmp_path: Path) -> None:
    provider = cursor_pages()
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        path = "/objects/x/search"
        json_type = {"Content-Type": "application/json"}
        for data, headers in (
            (b"{", json_type),
            (b"", json_type),
            (b"[1]", json_type),
            (b'"x"', json_type),
            (b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}),
            (b"{}", {**json_type, "Content-Encoding": "x-unknown"}),
        ):
            assert "body" in refusal_message(
                await paged_gateway.call("all", path, method="POST", data=data, headers=headers)
            )
        large = b'{"q":"' + b"x" * (64 * 1024) + b'"}'
        reply = await paged_gateway.call("all", path, method="POST", data=large, headers=json_type)
        assert (reply.status, reply.headers["Gateway-Error"]) == (413, "body_too_large")
        assert provider.bodies == []


async def test_post_with_expect_100_continue_gets_a_response(tmp_path: Path) -> None:
    provider = cursor_pages(1)
    async with paged(tmp_path, provider, SEARCH) as paged_gateway:
        reply = await paged_gateway.call("all", "/objects/x/search", method="POST", json={"a": 1}, expect100=True)
        assert (reply.numbers, reply.trailer["complete"]) == ([1, 2], True)

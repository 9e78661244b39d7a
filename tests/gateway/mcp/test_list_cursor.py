"""Lists page by page: following the cursors of a list tool returns the whole list, each item once."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fakes.agent_gateway import agent_gateway, text_of

ITEMS = [{"id": n, "text": f"item {n} " + "x" * (n % 40)} for n in range(57)]
PAGE = 20
CURSOR = {
    "type": "cursor",
    "cursor_path_in_response": "meta.next",
    "cursor_name_in_request": "after",
    "limit_name_in_request": "limit",
    "response_path": "items",
}
OFFSET = {
    "type": "offset",
    "offset_name_in_request": "start",
    "limit_name_in_request": "limit",
    "response_path": "items",
}
LINK = {"type": "link", "link_rel_in_response_header": "next", "response_path": "items"}
BODY_LINK = {"type": "link", "link_path_in_response_body": "meta.url", "response_path": "items"}


async def pages(request: web.Request) -> web.Response:
    """Return items from `start` or `after` on, with the fields of every pagination type."""
    at = int(request.query.get("start") or request.query.get("after") or 0)
    some, following = ITEMS[at : at + PAGE], at + PAGE
    more = following < len(ITEMS)
    next_url = request.url.update_query(start=following)
    meta = {"next": str(following) if more else None, "url": str(next_url) if more else None, "total": len(ITEMS)}
    headers = {"Link": f'<{next_url}>; rel="next"'} if more else {}
    return web.json_response({"items": some, "meta": meta}, headers=headers)


def cursor_in(result: Any) -> str | None:
    found = re.search(r"cursor: (\S+)$", text_of(result), re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize("paginate", [CURSOR, OFFSET, LINK, BODY_LINK], ids=["cursor", "offset", "link", "body_link"])
@pytest.mark.parametrize("max_bytes", [400, 100_000])
async def test_following_the_cursors_returns_each_item_once(
    paginate: dict[str, Any], max_bytes: int, tmp_path: Path
) -> None:
    async with agent_gateway(tmp_path, paginate=paginate) as gateway:
        gateway.provider.responding = pages
        key = await gateway.key("GET /base/v1/items as list_items")
        assert "cursor" in (await gateway.tools(key))["list_items"]["inputSchema"]["properties"]
        arguments: dict[str, Any] = {"query": {"limit": PAGE, "sort": "id"}, "max_bytes": max_bytes}
        seen: list[Any] = []
        for _ in range(80):
            result = await gateway.call(key, "list_items", arguments)
            assert result["isError"] is False, result
            seen += result["structuredContent"]["items"]
            cursor = cursor_in(result)
            if cursor is None:
                break
            arguments["cursor"] = cursor
        assert seen == ITEMS
        assert all(path.startswith("/base/v1/items?") and "sort=id" in path for _, path, _, _ in gateway.provider.calls)
        if max_bytes > 400:
            assert len(gateway.provider.calls) in (3, 4)  # with an offset, the last page is empty


async def test_a_cursor_is_valid_only_for_its_key_and_call(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path, paginate=CURSOR) as gateway:
        gateway.provider.responding = pages
        rules = ("GET /base/v1/items as list_items", "GET /base/v1/others as list_others")
        key, other = await gateway.key(*rules), await gateway.key(*rules)
        cursor = cursor_in(await gateway.call(key, "list_items", {"query": {"limit": PAGE}}))
        gateway.provider.calls.clear()
        for item, name, arguments in (
            (other, "list_items", {"query": {"limit": PAGE}}),
            (key, "list_others", {"query": {"limit": PAGE}}),
            (key, "list_items", {"query": {"limit": 5}}),
            (key, "list_items", {}),
        ):
            refused = await gateway.call(item, name, {**arguments, "cursor": cursor})
            assert refused["isError"] is True, (name, arguments)
        made_up = await gateway.call(key, "list_items", {"query": {"limit": PAGE}, "cursor": "made up"})
        assert text_of(made_up).endswith("a cursor from inside the response belongs in 'query'.")
        assert gateway.provider.calls == []
        for page in (2, 3):
            result = await gateway.call(key, "list_items", {"query": {"limit": PAGE}, "cursor": cursor})
            assert (result["isError"], len(gateway.provider.calls)) == (False, page - 1)
            cursor = cursor_in(result)
        assert cursor is None


async def test_a_link_to_another_host_is_not_followed(tmp_path: Path) -> None:
    async def link_to_other_host(_: web.Request) -> web.Response:
        return web.json_response({"items": ITEMS, "meta": {"url": "https://attacker.example/base/v1/items?start=20"}})

    async with agent_gateway(tmp_path, paginate=BODY_LINK) as gateway:
        gateway.provider.responding = link_to_other_host
        result = await gateway.call(await gateway.key("GET /base/v1/items as list_items"), "list_items", {})
        assert (result["isError"], cursor_in(result)) == (False, None)
        assert text_of(result).splitlines()[-1].startswith("More follows, but the provider's reference")


async def test_a_public_url_without_a_port_does_not_end_a_list_after_its_first_page(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path, paginate=LINK) as gateway:
        gateway.provider.responding = pages
        server = gateway.running.runtime.current.generation.config.server
        gateway.running.configure(server=replace(server, public_url="https://gw.example.com"))
        key = await gateway.key("GET /base/v1/items as list_items")
        arguments: dict[str, Any] = {"query": {"limit": PAGE}}
        arguments["cursor"] = cursor_in(await gateway.call(key, "list_items", arguments))
        assert (await gateway.call(key, "list_items", arguments))["structuredContent"]["items"][0] == ITEMS[PAGE]


async def test_the_rules_apply_to_a_next_page_as_to_any_call(tmp_path: Path) -> None:
    async def outside(request: web.Request) -> web.Response:
        outside_url = str(request.url.with_path("/base/v1/secrets").with_query(start=20))
        return web.json_response({"items": ITEMS, "meta": {"url": outside_url}})

    async with agent_gateway(tmp_path, paginate=BODY_LINK) as gateway:
        gateway.provider.responding = outside
        key = await gateway.key("GET /base/v1/items as list_items")
        cursor = cursor_in(await gateway.call(key, "list_items", {}))
        gateway.provider.calls.clear()
        result = await gateway.call(key, "list_items", {"cursor": cursor})
        assert result["isError"] is True
        assert result["structuredContent"]["error"]["payload"]["rule"] == "rules"
        assert gateway.provider.calls == []


async def test_an_empty_page_does_not_end_a_list_that_names_a_next_page(tmp_path: Path) -> None:
    """Providers that filter after they have read a page, such as Google's, return such pages."""

    async def filtered(request: web.Request) -> web.Response:
        after = int(request.query.get("after", 0))
        return web.json_response({"items": ITEMS[:1] if after == 2 else [], "meta": {"next": str(after + 1)}})

    async with agent_gateway(tmp_path, paginate=CURSOR) as gateway:
        gateway.provider.responding = filtered
        key = await gateway.key("GET /base/v1/items as list_items")
        arguments: dict[str, Any] = {}
        for items in ([], [], ITEMS[:1]):
            result = await gateway.call(key, "list_items", arguments)
            assert result["structuredContent"]["items"] == items
            arguments["cursor"] = cursor_in(result)


async def test_a_selected_page_continues_at_the_next_page(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path, paginate=CURSOR) as gateway:
        gateway.provider.responding = pages
        key = await gateway.key("GET /base/v1/items as list_items")
        arguments: dict[str, Any] = {"select": "items[].id"}
        seen: list[int] = []
        while True:
            result = await gateway.call(key, "list_items", arguments)
            seen += json.loads(result["content"][0]["text"])
            if (cursor := cursor_in(result)) is None:
                break
            arguments["cursor"] = cursor
        assert seen == [item["id"] for item in ITEMS]
        cut = await gateway.call(key, "list_items", {"select": "items[].text", "max_bytes": 100})
        assert cursor_in(cut) is None


async def test_a_longer_list_beside_the_paged_one_does_not_end_it(tmp_path: Path) -> None:
    async def with_included(request: web.Request) -> web.Response:
        page = json.loads((await pages(request)).text or "")
        return web.json_response({**page, "included": [{"id": n, "text": "x" * 100} for n in range(3 * PAGE)]})

    async with agent_gateway(tmp_path, paginate=CURSOR) as gateway:
        gateway.provider.responding = with_included
        key = await gateway.key("GET /base/v1/items as list_items")
        arguments: dict[str, Any] = {"max_bytes": 3000}
        seen: list[Any] = []
        for call in (1, 2, 3):
            result = await gateway.call(key, "list_items", arguments)
            seen += result["structuredContent"]["items"]
            arguments["cursor"] = cursor_in(result)
            assert len(gateway.provider.calls) == call
        assert (seen, arguments["cursor"]) == (ITEMS, None)


async def test_two_empty_pages_are_not_the_same_page_again(tmp_path: Path) -> None:
    async def filtered(request: web.Request) -> web.Response:
        page = int(request.query.get("start", 0))
        return web.json_response({"items": ITEMS[:1] if page == 3 else [], "more": page < 3})

    pages_of = {**OFFSET, "offset_calculation_method": "per-page", "has_more_path_in_response": "more"}
    async with agent_gateway(tmp_path, paginate=pages_of) as gateway:
        gateway.provider.responding = filtered
        key = await gateway.key("GET /base/v1/items as list_items")
        arguments: dict[str, Any] = {}
        for items in ([], [], [], ITEMS[:1]):
            result = await gateway.call(key, "list_items", arguments)
            assert result["structuredContent"]["items"] == items
            arguments["cursor"] = cursor_in(result)
        assert arguments["cursor"] is None


@pytest.mark.parametrize("max_bytes", [400, 100_000])
async def test_a_response_that_ignores_the_offset_does_not_page_forever(max_bytes: int, tmp_path: Path) -> None:
    async def profile(_: web.Request) -> web.Response:
        return web.json_response({"name": "Ada", "bikes": ITEMS[:PAGE]})

    offset = {name: value for name, value in OFFSET.items() if name != "response_path"}
    async with agent_gateway(tmp_path, paginate=offset) as gateway:
        gateway.provider.responding = profile
        key = await gateway.key("GET /base/v1/athlete as get_athlete")
        arguments: dict[str, Any] = {"max_bytes": max_bytes}
        seen: list[Any] = []
        while (cursor := cursor_in(result := await gateway.call(key, "get_athlete", arguments))) is not None:
            seen += result["structuredContent"]["bikes"]
            arguments["cursor"] = cursor
            assert len(gateway.provider.calls) < PAGE
        assert seen == ITEMS[:PAGE]
        assert text_of(result).endswith("this response has no further pages.")


async def test_names_of_members_do_not_count_as_items(tmp_path: Path) -> None:
    async def with_large_items(_: web.Request) -> web.Response:
        members = [{"id": n, "text": "x" * 500} for n in range(PAGE)]
        return web.json_response({"ok": True, "members": members, "meta": {"next": "20"}})

    async with agent_gateway(tmp_path, paginate={**CURSOR, "response_path": "members"}) as gateway:
        gateway.provider.responding = with_large_items
        key = await gateway.key("GET /base/v1/users as list_users")
        result = await gateway.call(key, "list_users", {"max_bytes": 300})
        assert result["structuredContent"] == {"members": ["ok", "members", "meta"]}
        assert cursor_in(result) is None


async def test_only_lists_have_a_cursor(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path, paginate=CURSOR) as gateway:
        rules = (
            "GET /base/v1/items as a",
            "GET /base/v1/items/{item} as b",
            "POST /base/v1/items as c",
            "GET /base/v1/** as d",
        )
        tools = await gateway.tools(await gateway.key(*rules))
        assert [name for name, tool in tools.items() if "cursor" in tool["inputSchema"]["properties"]] == ["a"]

"""Keys: the tree of minted keys, a check whether a request would be allowed, and revocation."""

from html import unescape

from tests.fakes.console import at_console, csrf_token
from tests.fakes.gateways import RunningGateway


async def test_keys_are_listed_under_their_parents_checked_and_revoked(running: RunningGateway) -> None:
    rules = {"display_name": "agent", "limits": {"rules": ["GET /v1/items/*"], "budget": 10}}
    minted = (await running.json("POST", "/environment/api-keys", json=rules, expect=200))["data"]
    async with at_console(running) as console:
        page = await console.page(f"/dev/key?id={minted['id']}&method=GET&path=/v1/items/5")
        assert "Allowed" in page
        assert minted["secret"] not in page
        page = await console.page(f"/dev/key?id={minted['id']}&method=DELETE&path=/v1/items/5")
        assert "none of its rules allows DELETE" in page
        listed = (await console.data("/dev/keys.json"))["keys"]
        assert [(row["id"], row["depth"], row["budget"]) for row in listed] == [(minted["id"], 0, 10)]
        done = await console.send("/dev/key/revoke", {"form": csrf_token(page), "id": str(minted["id"])})
        assert "1 revoked" in done
        assert (await console.data("/dev/keys.json"))["keys"] == []
        assert (await console.data("/dev/keys.json?ended=1"))["keys"][0]["revoked_at"] is not None


async def test_the_list_shows_how_many_operations_a_rule_covers(running: RunningGateway) -> None:
    rules = {"display_name": "reader", "limits": {"rules": ["operations jira read"]}}
    await running.json("POST", "/environment/api-keys", json=rules, expect=200)
    async with at_console(running) as console:
        page = unescape(await console.page("/dev/keys"))
    assert "operations: operations jira read=" in page
    assert "{'" not in page

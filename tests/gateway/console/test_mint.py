"""Minting a key at the console: it is shown once, has its parent's rules, and needs the operator role."""

import re

import pytest

from gateway.records.audit import AuditFilter
from tests.fakes.console import at_console, csrf_token
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_a_minted_key_is_shown_once(
    running: RunningGateway, tracker: Tracker, caplog: pytest.LogCaptureFixture
) -> None:
    await running.import_connection(tracker.grant())
    async with at_console(running, name="ada") as console:
        form = csrf_token(await console.page("/dev/keys"))
        fields = {"form": form, "name": "agent", "rules": "GET /items/*\r\nGET /lists/*", "integrations": "tracker"}
        page = await console.send("/dev/key/mint", {**fields, "rate": "60", "budget": "5", "days": "30"})
        assert re.search(r">\d{4}-\d\d-\d\d \d\d:\d\d UTC</time>", page)
        secret = page.partition("gw_sk_")[2].partition("<")[0]
        assert len(secret) == 49
        (key,) = (await console.data("/dev/keys.json"))["keys"]
        assert key["limits"] == [{"integrations": ["tracker"], "rules": ["GET /items/*", "GET /lists/*"]}]
        assert (key["rate"], key["budget"], key["scopes"]) == (60, 5, ["environment:proxy"])
        headers = {"Authorization": f"Bearer gw_sk_{secret}"}
        async with running.call_proxy("c1", "/items/1", headers=headers) as response:
            assert "Gateway-Error" not in response.headers
        async with running.call_proxy("c1", "/items/1", method="DELETE", headers=headers) as response:
            assert (response.status, response.headers["Gateway-Error"]) == (403, "forbidden")
        for path in ("/dev/keys", f"/dev/key?id={key['id']}", "/dev/audit", "/dev/calls", "/dev"):
            assert secret not in await console.page(path)
        assert secret not in caplog.text
    await running.runtime.audit_keeper.run_once()
    (record,) = await running.runtime.store.audit.find(AuditFilter(action="key.created"))
    assert record.as_json()["actor"]["name"] == "ada"
    assert secret not in str(record.as_json())


async def test_a_key_for_an_unknown_integration_is_shown_with_a_warning(running: RunningGateway) -> None:
    async with at_console(running) as console:
        form = csrf_token(await console.page("/dev/keys"))
        fields = {"form": form, "name": "agent", "rules": "GETT /x", "connections": "trakcer/c1"}
        page = await console.send("/dev/key/mint", fields)
        assert "environment 'dev' has no integration 'trakcer'; did you mean 'tracker'?" in page
        assert "did you mean 'GET'?" in page


@pytest.mark.parametrize(
    ("wrong", "message", "status"),
    [
        ({"rules": "DANCE\nGET /a\nwhat", "connections": "tracker"}, "'DANCE' has no path", 400),
        ({"name": "taken"}, "has the name 'taken' already", 409),
        ({"rate": "many"}, "'rate' must be a whole number", 400),
        ({"parent": "99"}, "has no key 99", 404),
    ],
)
async def test_a_refused_form_is_shown_again_with_what_was_typed(
    wrong: dict[str, str], message: str, status: int, running: RunningGateway
) -> None:
    async with at_console(running) as console:
        fields = {"form": csrf_token(await console.page("/dev/keys")), "name": "taken", "rules": "GET /a"}
        await console.send("/dev/key/mint", fields)
        typed = {**fields, "name": "<agent>", "scopes": "environment:proxy", "kind": "capability", "days": "7"}
        typed |= {"connections": "tracker/c1", **wrong}
        page = await console.send("/dev/key/mint", typed, expect=status)
        assert message in page
        assert "and 1 more" not in page
        for name in ("name", "scopes", "days"):
            assert f'value="{typed[name]}"' in page
        assert f">{typed['rules']}</textarea>" in page
        assert '<option value="capability" selected>' in page
        assert "gw_sk_" in await console.send("/dev/key/mint", {**fields, "name": "x", "form": csrf_token(page)})


async def test_long_limits_are_not_cut(running: RunningGateway) -> None:
    rules = [f"GET /v1/{'x' * 480}/{n}" for n in range(50)]
    async with at_console(running) as console:
        fields = {"form": csrf_token(await console.page("/dev/keys")), "name": "agent", "rules": "\n".join(rules)}
        await console.send("/dev/key/mint", fields)
        (key,) = (await console.data("/dev/keys.json"))["keys"]
        assert key["limits"] == [{"rules": rules}]


async def test_a_child_key_also_has_the_rules_of_its_parent(running: RunningGateway) -> None:
    body = {"display_name": "above", "scopes": ["environment:proxy"], "limits": {"rules": ["GET /items/*"]}}
    above = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    async with at_console(running) as console:
        form = csrf_token(await console.page("/dev/keys"))
        fields = {"form": form, "name": "below", "parent": str(above["id"]), "rules": "GET /items/1"}
        await console.send("/dev/key/mint", fields)
        below = next(key for key in (await console.data("/dev/keys.json"))["keys"] if key["display_name"] == "below")
        assert (below["parent_id"], below["depth"]) == (above["id"], 1)
        assert below["limits"] == [{"rules": ["GET /items/1"]}, {"rules": ["GET /items/*"]}]
        await console.send("/dev/key/mint", {**fields, "scopes": "environment:*"}, expect=403)
        await console.send("/dev/key/revoke", {"form": form, "id": str(above["id"])})
        assert "is revoked or expired" in await console.send("/dev/key/mint", fields, expect=400)


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"rules": "DANCE"}, {"rate": "x"}, {"kind": "dance"}, {"parent": "99"}]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_invalid_key_form_mints_nothing(shared_gateway: RunningGateway, wrong: dict[str, str]) -> None:
    async with at_console(shared_gateway) as console:
        form = csrf_token(await console.page("/dev/keys"))
        fields = {"form": form, "name": "agent", **wrong}
        await console.send("/dev/key/mint", fields, expect=404 if "parent" in wrong else 400)
        assert (await console.data("/dev/keys.json"))["keys"] == []

"""The audit log and the use of keys in the console."""

from gateway.records.audit import AuditFilter
from tests.fakes.console import ONE, at_console, csrf_token
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_console_actions_are_audited_with_the_operators_name(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    async with at_console(running, name="ada") as console:
        where = {"form": csrf_token(await console.page(ONE)), "integration": "tracker", "id": "c1"}
        await console.send("/dev/connection/link", where)
        await console.send("/dev/integration/connect", {"form": where["form"], "key": "tracker"})
        await console.send("/dev/connection/delete", {**where, "typed": "c1"})
        await running.runtime.audit_keeper.run_once()
        links = (await console.data("/dev/audit.json?action=connect_link.created"))["records"]
        assert {(link["connection_id"], link["actor"]["name"]) for link in links} == {("c1", "ada"), (None, "ada")}
        assert all(len(link["detail"]["session"]) == 16 for link in links)
        data = await console.data("/dev/audit.json?action=connection.deleted")
        (record,) = data["records"]
        assert (record["actor"]["kind"], record["actor"]["name"], record["actor"]["command"]) == (
            "operator",
            "ada",
            "console",
        )
        assert (record["connection_id"], record["address"]) == ("c1", "127.0.0.1")
        assert "connection.deleted" in await console.page("/dev/audit")
        form = where["form"]
        await console.send("/dev/key/mint", {"form": form, "name": "mine", "kind": "key"})
        await console.send("/dev/key/revoke", {"form": form, "id": "1"})
        await running.runtime.audit_keeper.run_once()
        for action in ("key.created", "key.revoked"):
            (record,) = (await console.data(f"/dev/audit.json?action={action}"))["records"]
            assert (record["actor"]["kind"], record["actor"]["name"], record["actor"]["command"]) == (
                "operator",
                "ada",
                "console",
            )
    (signed_in,) = await running.runtime.store.audit.find(AuditFilter(action="operator.signed_in"))
    assert signed_in.as_json()["detail"] == {"role": "operator"}


async def test_uses_of_a_key_are_counted(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    for _ in range(3):
        async with running.call_proxy("c1") as response:
            await response.read()
    await running.runtime.call_queue.flush()
    async with at_console(running) as console:
        uses = (await console.data("/dev/audit.json"))["uses"]
        assert (uses["calls"], uses["data"][0]["connection_id"]) == (3, "c1")

"""``gateway audit``: what each command prints, and its exit codes, beside a gateway that runs."""

import json
from pathlib import Path

import pytest

from tests.fakes.commands import Said, said
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker
from tests.gateway.cli.examined import Examined


@pytest.fixture
async def filled(running: RunningGateway, tracker: Tracker, examined: Examined) -> Examined:
    """Of one imported connection, read once."""
    examined.write()
    await running.imported(tracker.grant(), end_user={"id": "anna"})
    await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
    return examined


async def audit(of: Examined, *words: str) -> Said:
    return await said("audit", *words, "-c", str(of.file))


async def test_a_table_newest_first(filled: Examined) -> None:
    shown = await audit(filled, "show")
    assert shown.code == 0, shown.err
    head, first, second = shown.out.splitlines()
    assert head.split()[0] == "NUMBER"
    assert first.split()[3] == "credential.read"
    assert "a key of gateway.yaml" in first
    assert "tracker/c1" in second


async def test_filters_narrow_down_and_a_wrong_one_is_named(filled: Examined) -> None:
    for words, actions in (
        (("--action", "credential.read"), ["credential.read"]),
        (("--connection", "c1", "--limit", "1"), ["credential.read"]),
        (("--cursor", "2"), ["connection.imported"]),
        (("--environment", "dev", "--end-user", "anna"), ["credential.read", "connection.imported"]),
        (("--environment", "dev", "--end-user", "ben"), []),
        (("--since", "1h", "--until", "1m"), []),
    ):
        done = await audit(filled, "show", "--json", *words)
        assert done.code == 0, (words, done.err)
        assert [one["action"] for one in json.loads(done.out)] == actions, words
    for words, fault in (
        (("--end-user", "anna"), "needs --environment"),
        (("--since", "soon"), "--since takes a span"),
        (("--action", "nothing"), "Invalid value for '--action'"),
    ):
        refused = await audit(filled, "show", *words)
        assert (refused.code, fault in refused.err) == (2, True), refused.err


async def test_an_export_goes_on_where_the_last_one_ended(filled: Examined) -> None:
    lines = [json.loads(line) for line in (await audit(filled, "export")).out.splitlines()]
    assert [one["sequence"] for one in lines] == [1, 2]
    assert (await audit(filled, "export", "--after", "2")).out == ""


async def test_verify_says_what_is_proven_and_that_checkpoints_should_lie_elsewhere(filled: Examined) -> None:
    done = await audit(filled, "verify")
    assert done.code == 0, done.err
    assert "2 records, 1 to 2: the chain is whole." in done.out
    assert "not proven by a checkpoint yet" in done.out
    assert "Give --checkpoint" in done.err


async def test_a_file_without_a_checkpoint_is_refused(filled: Examined, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("{}\n")
    done = await audit(filled, "verify", "--checkpoint", str(tmp_path / "empty.jsonl"))
    assert (done.code, "has no checkpoint" in done.err) == (2, True)


async def test_the_public_key_stays_until_a_new_one_is_requested(filled: Examined) -> None:
    first = (await audit(filled, "key")).out
    assert (await audit(filled, "key")).out == first
    newer = (await audit(filled, "key", "--new")).out
    assert newer != first
    assert json.loads((await audit(filled, "key", "--json")).out)["public_key"] == newer.strip()
    actions = [one["action"] for one in json.loads((await audit(filled, "show", "--json")).out)]
    assert actions.count("audit_key.created") == 2


async def test_uses_of_nobody_are_none(filled: Examined) -> None:
    done = await audit(filled, "uses", "--since", "2h")
    assert done.code == 0, done.err
    assert "0 calls, 0 failed" in done.out
    assert (await audit(filled, "uses", "--since", "1h", "--until", "2h")).code == 2


async def test_an_end_user_is_forgotten_once(filled: Examined) -> None:
    assert "Forgotten" in (await audit(filled, "forget", "anna")).out
    again = await audit(filled, "forget", "anna")
    assert (again.code, "forgotten already" in again.err) == (1, True)
    assert json.loads((await audit(filled, "show", "--json", "--environment", "dev", "--end-user", "anna")).out) == []
    assert (await audit(filled, "verify")).code == 0

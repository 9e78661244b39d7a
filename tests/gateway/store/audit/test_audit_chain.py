"""A verifier with one checkpoint finds every tampering by an attacker who knows the hash format but not the signing
key.
"""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.records.audit import AuditAction, AuditActor, AuditEntry, ChainedRecord, columns_of
from gateway.store.audit.audit_chain import (
    ChainCheck,
    ChainVerdict,
    Checkpoint,
    checkpoints_in,
    first_hash,
    hash_record,
    public_text,
)

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STORE = "5f0e"
KEY = Ed25519PrivateKey.generate()
TAMPERINGS = int(os.environ.get("GATEWAY_AUDIT_TAMPERINGS", "600"))
"""Number of tamperings. Long form: GATEWAY_AUDIT_TAMPERINGS=10000."""
ACTIONS = list(AuditAction)


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        action=ACTIONS[number % len(ACTIONS)],
        at=START,
        actor=AuditActor("key", key_id=number % 5, address="192.0.2.1"),
        environment="dev",
        integration_id="jira",
        connection_id=f"u{number}",
        request_id=f"r{number}",
        detail={"number": number},
    )


def make_chain(bodies: list[str], start: tuple[int, str] = (0, first_hash(STORE))) -> list[ChainedRecord]:
    sequence, digest = start
    found = []
    for body in bodies:
        sequence += 1
        digest = hash_record(digest, sequence, body)
        found.append(ChainedRecord(sequence, digest, columns_of(body), body))
    return found


def checkpoint(record: ChainedRecord, key: Ed25519PrivateKey = KEY) -> Checkpoint:
    return Checkpoint(STORE, record.sequence, record.hash, START).sign(key)


def check_chain(records: list[ChainedRecord], *checkpoints: Checkpoint) -> ChainVerdict:
    check = ChainCheck((0, first_hash(STORE)), checkpoints)
    check.feed(records)
    return check.finish()


CHAIN = make_chain([entry(number).body() for number in range(1, 61)])


def test_an_unchanged_chain_is_complete() -> None:
    verdict = check_chain(CHAIN, checkpoint(CHAIN[39]))
    assert verdict.ok
    assert (verdict.records, verdict.last, verdict.proven_to, verdict.unproven) == (60, 60, 40, 20)


def sealed_again(records: list[ChainedRecord]) -> list[ChainedRecord]:
    """Seal changed records again with consistent numbers and hashes, as an attacker who knows the format does."""
    return make_chain([record.body for record in records])


def edit_at_random(records: list[ChainedRecord], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    body = records[at].body
    place = chance.randrange(len(body))
    other = chance.choice([item for item in "0123456789abcdefxyz" if item != body[place]])
    records[at] = records[at]._replace(body=body[:place] + other + body[place + 1 :])


def replace_whole(records: list[ChainedRecord], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    body = entry(1000 + chance.randrange(1000)).body()
    records[at] = records[at]._replace(body=body, columns=columns_of(body))


def edit_column(records: list[ChainedRecord], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    name = chance.choice(["environment", "action", "key_id", "integration_id", "connection_id", "end_user"])
    value = 77 if name == "key_id" else "another"
    records[at] = records[at]._replace(columns=records[at].columns._replace(**{name: value}))


def edit_hash(records: list[ChainedRecord], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    records[at] = records[at]._replace(hash=chance.randbytes(32).hex())


def drop(records: list[ChainedRecord], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    del records[at : at + chance.randint(1, 3)]


def swap(records: list[ChainedRecord], chance: random.Random) -> None:
    one, other = chance.sample(range(len(records)), 2)
    first, second = records[one], records[other]
    records[one] = first._replace(body=second.body, columns=second.columns)
    records[other] = second._replace(body=first.body, columns=first.columns)


def reorder(records: list[ChainedRecord], chance: random.Random) -> None:
    one, other = chance.sample(range(len(records)), 2)
    records[one], records[other] = records[other], records[one]


def insert(records: list[ChainedRecord], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    body = entry(5000).body()
    records.insert(at, ChainedRecord(records[at].sequence, records[at].hash, columns_of(body), body))


def copy(records: list[ChainedRecord], chance: random.Random) -> None:
    records.insert(chance.randrange(len(records)), chance.choice(records))


def truncate(records: list[ChainedRecord], chance: random.Random) -> None:
    del records[chance.randrange(len(records)) :]


KINDS: list[Callable[[list[ChainedRecord], random.Random], None]] = [
    edit_at_random,
    replace_whole,
    edit_column,
    edit_hash,
    drop,
    swap,
    reorder,
    insert,
    copy,
    truncate,
]


def readable(records: list[ChainedRecord]) -> bool:
    try:
        return all(columns_of(record.body) for record in records)
    except ValueError:
        return False


@pytest.mark.parametrize("computed_again", [False, True], ids=["hashes-left", "hashes-computed-again"])
def test_every_tampering_is_found_given_the_last_checkpoint_that_left(computed_again: bool) -> None:
    """If the attacker computes all hashes again, only the checkpoint shows the tampering. Otherwise the hash chain
    shows it.
    """
    chance, done = random.Random(20), 0
    last_checkpoint = checkpoint(CHAIN[-1])
    while done < TAMPERINGS // 2:
        records = list(CHAIN)
        KINDS[done % len(KINDS)](records, chance)
        if computed_again and readable(records):
            records = sealed_again(records)
        if records == CHAIN:
            assert computed_again  # in this case, the tampering restored an edited column or hash
            done += 1
            continue
        verdict = check_chain(records, last_checkpoint)
        assert not verdict.ok, KINDS[done % len(KINDS)].__name__
        first = next(
            (n for n, (item, was) in enumerate(zip(records, CHAIN, strict=False), 1) if item != was), len(records) + 1
        )
        assert computed_again or verdict.faults[0].sequence <= first + 1
        done += 1


def test_records_after_the_last_checkpoint_are_unproven() -> None:
    cut = check_chain(CHAIN[:50], checkpoint(CHAIN[39]))
    assert cut.ok
    assert cut.unproven == 10


def test_without_any_checkpoint_everything_is_unproven() -> None:
    assert check_chain(CHAIN).unproven == 60


def test_a_truncation_is_reported_with_the_missing_records() -> None:
    (fault,) = check_chain(CHAIN[:50], checkpoint(CHAIN[59])).faults
    assert (fault.sequence, fault.kind) == (51, "truncated")
    assert "ends at record 50" in fault.message
    assert "10 removed" in fault.message


def test_a_missing_record_is_reported_by_its_number() -> None:
    (fault,) = check_chain(CHAIN[:9] + CHAIN[10:], checkpoint(CHAIN[59])).faults
    assert (fault.sequence, fault.kind) == (10, "missing")


def test_fault_of_a_rewritten_chain_names_the_records_between_two_checkpoints() -> None:
    body = entry(999).body()
    records = sealed_again([*CHAIN[:29], CHAIN[29]._replace(body=body), *CHAIN[30:]])
    verdict = check_chain(records, checkpoint(CHAIN[19]), checkpoint(CHAIN[39]), checkpoint(CHAIN[59]))
    assert (verdict.faults[0].sequence, verdict.faults[0].kind) == (21, "rewritten")
    assert "records 21 to 40" in verdict.faults[0].message
    assert verdict.proven_to == 20


def test_a_checkpoint_proves_records_only_with_a_trusted_key() -> None:
    others = Ed25519PrivateKey.generate()
    signed = checkpoint(CHAIN[9], others)
    assert signed.is_signed_by([public_text(others)])
    # the checkpoint names the key that signed it, but the verifier does not trust this key
    assert not signed.is_signed_by([public_text(KEY)])
    assert not replace(signed, hash=CHAIN[8].hash).is_signed_by([public_text(others)])
    assert not replace(signed, signature="").is_signed_by([public_text(others), "", "not base64"])


def test_checkpoints_are_found_in_a_file_and_among_log_lines() -> None:
    import json

    signed = checkpoint(CHAIN[9])
    line = json.dumps({"event": "audit_checkpoint", "level": "info", **signed.as_json()})
    text = f'{json.dumps(signed.as_json())}\nplain text\n{{"event": "exchange"}}\n{line}\n{{"sequence": 1, "signature": 3}}\n'
    assert checkpoints_in(text) == [signed, signed]


def test_a_pruned_chain_is_checked_from_its_first_record() -> None:
    check = ChainCheck((20, CHAIN[19].hash), [checkpoint(CHAIN[9]), checkpoint(CHAIN[19]), checkpoint(CHAIN[59])])
    check.feed(CHAIN[20:])
    verdict = check.finish()
    assert verdict.ok
    assert (verdict.first, verdict.last, verdict.proven_to) == (21, 60, 60)


def test_the_page_lists_every_action_with_its_meaning() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[4] / "docs" / "audit.md").read_text()
    table = page[page.index("| `action` | when |") :].partition("\n\n")[0].splitlines()[2:]
    assert table == [f"| `{item}` | {item.meaning} |" for item in AuditAction]

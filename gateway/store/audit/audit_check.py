"""Reads a whole chain and reports its faults (`gateway audit verify`)."""

from collections.abc import Sequence

from gateway.records.audit import AuditAction, AuditFilter
from gateway.store.audit.audit_chain import MAX_FAULTS, ChainCheck, ChainFault, ChainVerdict, Checkpoint, iso
from gateway.store.audit.audit_records import AuditRecords


async def verify_chain(
    records: AuditRecords, checkpoints: Sequence[Checkpoint], public_keys: Sequence[str], *, with_stored: bool = True
) -> ChainVerdict:
    """Verify the chain of this store and return its faults.

    `checkpoints`: checkpoints kept outside the store. `public_keys`: keys trusted to sign checkpoints. `with_stored`:
    whether to use the checkpoints in the store too. Records that are not in the chain yet are only counted.
    """
    chain_end = await records.chain_end()
    pruned_to, digest, start = await records.start()
    faults = []
    accepted = []
    for checkpoint in checkpoints:
        if checkpoint.store != chain_end.store:
            faults.append(
                _checkpoint_fault(
                    checkpoint, f"is of another store, {checkpoint.store[:12]}; this one is {chain_end.store[:12]}"
                )
            )
        elif not checkpoint.is_signed_by(public_keys):
            faults.append(_checkpoint_fault(checkpoint, "has no valid signature by a key that is trusted here"))
        else:
            accepted.append(checkpoint)
    if with_stored:
        for checkpoint in await records.checkpoints():
            if checkpoint.is_signed_by(public_keys):
                accepted.append(checkpoint)
            else:
                faults.append(
                    _checkpoint_fault(checkpoint, "is kept in the store and has no valid signature: it was edited")
                )
    if start is not None and not start.is_signed_by(public_keys):
        faults.append(
            ChainFault(
                pruned_to, "start", f"the records up to {pruned_to} were removed, without a signature that covers it"
            )
        )
    check = ChainCheck((pruned_to, digest), accepted)
    pruned = False
    async for page in records.pages(AuditFilter(after=pruned_to)):
        check.feed(page)
        pruned = pruned or any(
            record.columns.action == AuditAction.AUDIT_PRUNED
            and record.as_json().get("detail", {}).get("to_hash") == digest
            for record in page
        )
    verdict = check.finish()
    if start is not None and not pruned:
        faults.append(
            ChainFault(
                pruned_to, "start", f"the records up to {pruned_to} were removed, and no record of a pruning says so"
            )
        )
    if not verdict.faults and (verdict.last, verdict.last_hash) != (chain_end.sequence, chain_end.hash):
        text = f"the chain ends at record {verdict.last}, and the store says that it should end at {chain_end.sequence}"
        faults.append(ChainFault(verdict.last + 1, "truncated", f"{text}: records were removed or added by hand"))
    verdict.faults = sorted([*faults, *verdict.faults], key=lambda fault: fault.sequence)[:MAX_FAULTS]
    verdict.waiting_records = await records.count_waiting()
    return verdict


def _checkpoint_fault(checkpoint: Checkpoint, text: str) -> ChainFault:
    return ChainFault(
        checkpoint.sequence,
        "checkpoint",
        f"the checkpoint of {iso(checkpoint.at)} on record {checkpoint.sequence} {text}",
    )

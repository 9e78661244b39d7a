"""Hashes, checkpoints, and the verification of a chain; no I/O.

A record's hash covers the previous record's hash, its own sequence number and its bytes. So a change of a record also
changes all later hashes. A checkpoint is a signed hash (Ed25519, RFC 8032), of which a copy is kept outside the store.
It proves its own record and all records before it.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.records.audit import ChainedRecord, canonical_json, columns_of

_RECORD: Final = b"gateway audit record 1\0"
_START: Final = b"gateway audit start 1\0"
_CHECKPOINT: Final = b"gateway audit checkpoint 1\0"
MAX_FAULTS: Final = 100


def first_hash(store_id: str) -> str:
    """Return the hash that precedes the first record of the store."""
    return hashlib.sha256(_START + store_id.encode()).hexdigest()


def hash_record(previous_digest: str, sequence: int, body: str) -> str:
    """Return the hash of a record. `previous_digest`: the hash of the previous record."""
    return hashlib.sha256(
        _RECORD + bytes.fromhex(previous_digest) + sequence.to_bytes(8, "big") + body.encode()
    ).hexdigest()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A signed statement: at the time `at`, record `sequence` of the store `store` had the hash `hash`.

    `public_key`, `signature`: in base64; empty before signing.
    """

    store: str
    sequence: int
    hash: str
    at: datetime
    public_key: str = ""
    signature: str = ""

    @property
    def _signed_bytes(self) -> bytes:
        signed = {"store": self.store, "sequence": self.sequence, "hash": self.hash, "at": iso(self.at)}
        return _CHECKPOINT + canonical_json(signed).encode()

    def sign(self, key: Ed25519PrivateKey) -> "Checkpoint":
        signature = base64.b64encode(key.sign(self._signed_bytes)).decode()
        return Checkpoint(self.store, self.sequence, self.hash, self.at, public_text(key), signature)

    def is_signed_by(self, public_keys: Iterable[str]) -> bool:
        """Return whether one of `public_keys` signed the checkpoint.

        The checkpoint's own `public_key` is trusted only if `public_keys` contains it.
        """
        for text in public_keys:
            try:
                key = Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
                key.verify(base64.b64decode(self.signature, validate=True), self._signed_bytes)
            except (InvalidSignature, binascii.Error, ValueError):
                continue
            return True
        return False

    def as_json(self) -> dict[str, Any]:
        return {
            "store": self.store,
            "sequence": self.sequence,
            "hash": self.hash,
            "at": iso(self.at),
            "public_key": self.public_key,
            "signature": self.signature,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "Checkpoint":
        """Return the checkpoint in a JSON object. Raises ValueError."""
        try:
            sequence = members["sequence"]
            if not isinstance(sequence, int) or isinstance(sequence, bool):
                raise ValueError("not a checkpoint: 'sequence' is not a whole number")
            texts = [members[name] for name in ("store", "hash", "at", "public_key", "signature")]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("not a checkpoint: a member is not text")
            store, digest, time_text, public_key, signature = texts
            return cls(store, sequence, digest, datetime.fromisoformat(time_text), public_key, signature)
        except (KeyError, TypeError) as fault:
            raise ValueError(f"not a checkpoint: {fault}") from None


def checkpoints_in(text: str) -> list[Checkpoint]:
    """Return the checkpoints in a checkpoint file or in a log of the gateway.

    Each checkpoint is a JSON object on a line of its own. Other lines are skipped.
    """
    checkpoints = []
    for line in text.splitlines():
        if '"signature"' not in line or '"sequence"' not in line:
            continue
        try:
            checkpoints.append(Checkpoint.from_json(json.loads(line)))
        except ValueError:
            continue
    return checkpoints


def public_text(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


# ── The verification of a chain.


@dataclass(frozen=True, slots=True)
class ChainFault:
    """A fault in a chain.

    `sequence`: the number of the first record concerned. `kind`: one of ``edited``, ``missing``, ``inserted``,
    ``order``, ``truncated``, ``rewritten``, ``start`` and ``checkpoint``.
    """

    sequence: int
    kind: str
    message: str


@dataclass(slots=True)
class ChainVerdict:
    """The result of a verification.

    - `records`: how many records were read
    - `first`, `last`: the numbers of the first and the last record read
    - `proven_to`: the number of the last record that a checkpoint proves; 0 if no record is proven
    - `waiting_records`: how many committed records are not in the chain yet
    - `checkpoints`: how many checkpoints were compared
    """

    records: int = 0
    first: int = 0
    last: int = 0
    last_hash: str = ""
    proven_to: int = 0
    waiting_records: int = 0
    checkpoints: int = 0
    faults: list[ChainFault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def unproven(self) -> int:
        """How many records at the end could be changed or removed without contradicting a checkpoint."""
        return max(0, self.last - max(self.proven_to, self.first - 1)) + self.waiting_records


class ChainCheck:
    """Verifies the chain of audit records. `feed` receives the records in the order of their numbers, or in the order
    of an export.

    `start`: the sequence number and the hash before the first record. The values are 0 and `first_hash`, or come from
    the last pruning. `checkpoints`: this store's checkpoints, with verified signatures.
    """

    def __init__(self, start: tuple[int, str], checkpoints: Sequence[Checkpoint]) -> None:
        self._sequence, self._hash = start
        self.verdict = ChainVerdict(first=start[0] + 1, last=start[0], last_hash=start[1])
        self._checkpoints = sorted(checkpoints, key=lambda checkpoint: checkpoint.sequence)
        self._start_sequence = start[0]
        self._next_checkpoint = 0
        # The first record at fault. A later checkpoint proves nothing about this record and the records after it.
        self._broken_at = 0

    def feed(self, records: Iterable[ChainedRecord]) -> None:
        for record in records:
            self._check_record(record)

    def finish(self) -> ChainVerdict:
        """Check the checkpoints after the last record, and return the verdict. Call this method once, after the last record."""
        self._check_checkpoints(None)
        verdict = self.verdict
        beyond_end = [checkpoint for checkpoint in self._checkpoints if checkpoint.sequence > verdict.last]
        if beyond_end:
            last_checkpoint = beyond_end[-1]
            self._fault(
                verdict.last + 1,
                "truncated",
                f"the chain ends at record {verdict.last}, but a checkpoint of {iso(last_checkpoint.at)} has signed record "
                f"{last_checkpoint.sequence}: {last_checkpoint.sequence - verdict.last} removed, from the end or, with the rest "
                f"numbered again, from after record {verdict.proven_to}",
            )
        verdict.checkpoints = len(self._checkpoints)
        verdict.faults.sort(key=lambda fault: fault.sequence)
        return verdict

    def _check_record(self, record: ChainedRecord) -> None:
        verdict, expected = self.verdict, self._sequence + 1
        verdict.records += 1
        if record.sequence <= self._sequence:
            self._fault(
                record.sequence,
                "order",
                f"record {record.sequence} follows record {self._sequence}: records were reordered, or one was copied",
            )
            return
        self._check_checkpoints(record.sequence)
        if record.sequence > expected:
            missing_text = (
                f"record {expected} is"
                if record.sequence == expected + 1
                else (f"records {expected} to {record.sequence - 1} are")
            )
            self._fault(expected, "missing", f"{missing_text} missing: removed from the store")
        elif hash_record(self._hash, record.sequence, record.body) != record.hash:
            self._fault(
                record.sequence,
                "edited",
                f"record {record.sequence} does not have the hash of its content and of the record before it: it was edited, "
                "replaced or moved",
            )
        try:
            if columns_of(record.body) != record.columns:
                self._fault(
                    record.sequence,
                    "edited",
                    f"a column of record {record.sequence} does not match its content: the column was edited",
                )
        except ValueError:
            self._fault(
                record.sequence, "edited", f"record {record.sequence} is not a record of the audit: it was edited"
            )
        self._sequence, self._hash = record.sequence, record.hash
        verdict.last, verdict.last_hash = record.sequence, record.hash

    def _check_checkpoints(self, up_to: int | None) -> None:
        """Compare the checkpoints of the last record read with the hash of this record.

        `up_to`: the number of the next record; None after the last record.
        """
        while self._next_checkpoint < len(self._checkpoints):
            checkpoint = self._checkpoints[self._next_checkpoint]
            if checkpoint.sequence > self._sequence and (up_to is None or checkpoint.sequence >= up_to):
                return
            self._next_checkpoint += 1
            if checkpoint.sequence < self._start_sequence:
                continue  # the records that this checkpoint proves were pruned
            if checkpoint.sequence != self._sequence:
                continue  # the record is missing; `_check_record` reports it
            if checkpoint.hash == self._hash:
                if not self._broken_at:
                    self.verdict.proven_to = max(self.verdict.proven_to, checkpoint.sequence)
                continue
            first_unproven = max(self.verdict.proven_to, self._start_sequence) + 1
            range_text = (
                f"record {first_unproven}"
                if first_unproven == checkpoint.sequence
                else f"one or more of records {first_unproven} to {checkpoint.sequence}"
            )
            self._fault(
                first_unproven,
                "rewritten",
                f"{range_text} changed after the checkpoint of {iso(checkpoint.at)} signed record {checkpoint.sequence}: the "
                "chain was rewritten and its hashes computed again",
            )

    def _fault(self, sequence: int, kind: str, message: str) -> None:
        if not self._broken_at:
            self._broken_at = sequence
        if len(self.verdict.faults) < MAX_FAULTS:
            self.verdict.faults.append(ChainFault(sequence, kind, message))

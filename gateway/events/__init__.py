"""Events out to the customer's application, and providers' webhooks in.

An event is written in the transaction of the change that it reports (`store/outbox.py`, ADR 21); this package delivers it.

    event_body     the bodies of events (docs/compatibility.md#events)
    signatures     what signs them, and the keys for that: from gateway.yaml, or minted
    delivery       works off the outbox: attempts, pauses, one queue for each target
    event_keeper   what one process does for all: announces connections that end soon, counts what waits
    audit_keeper   places and checkpoints for the audit trail, which leave the store; pruning
    webhook_keys   the public keys that prove some webhooks, fetched from their provider and kept for an hour
    receive        providers' webhooks: verified, remembered against replay, queued in one transaction

Always true: an event is delivered at least once, in order for each connection, for a day; a receiver can tell a repetition
by its id; a target that hangs holds up no other.
"""

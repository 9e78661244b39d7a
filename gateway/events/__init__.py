"""Sends events to the customer's application, and receives providers' webhooks.

An event is written in the transaction of the change that it reports (`store/outbox.py`, ADR 21);
this package delivers it.

    event_body     the bodies of events (docs/compatibility.md#events)
    signatures     signs events; the signing keys are from gateway.yaml or generated
    delivery       delivers the outbox: attempts, backoff, one queue per target
    event_keeper   tasks of one process for all processes: reports connections that expire soon, counts the backlog
    audit_keeper   places audit records in the hash chain, sends checkpoints, prunes old records
    webhook_keys   public keys for verifying webhooks, fetched from their provider and cached for an hour
    receive        verifies incoming webhooks, recognizes repetitions, and queues each webhook in one transaction

Always true: an event is delivered at least once, in order per connection, and retried for a day; a receiver recognizes
a repetition by its id; a slow target does not delay other targets.
"""

"""The audit trail: who did what with credentials, keys and connections, in a chain of hashes (docs/audit.md, ADR 50).

    audit_chain        hashes, checkpoints, and the verification of a chain; no I/O
    audit_trail        writes a record in the transaction of the change that it describes
    audit_records      moves records into the chain; finds, prunes and signs records
    audit_check        reads a whole chain and reports its faults
    use_counts         counts how often each key used each connection's credential, by the hour

Always true: a recorded change and its record are committed together or not at all. A record in the chain never changes.
No record contains a secret or an end user's id.
"""

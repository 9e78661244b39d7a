"""The audit trail: who did what with credentials, keys and connections, in a chain of hashes (docs/audit.md, ADR 50).

    audit_chain        hashes, checkpoints, and what is wrong with a chain; no I/O
    audit_trail        writes a record in the transaction of the change that it describes
    audit_records      gives records their places in the chain, finds, prunes and signs
    audit_check        reads a whole chain and reports the first record that is wrong
    use_counts         how often which key used which connection's credential, by the hour

Always true: a change that is recorded and its record are committed together or not at all; a record in the chain is never
changed; nothing in a record is a secret or an end user's id.
"""

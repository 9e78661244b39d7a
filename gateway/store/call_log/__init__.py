"""The call log: one row per operation, stored apart from the data that must not be lost.

    call_log_store      the interface for both databases: add, find and prune rows, within limits of age and size
    sqlite_call_log     a file next to the database, in segments that are indexed when they are full
    sqlite_segments     the tables of a segment
    sqlite_search       searches the segments
    call_totals         sums by quarter of an hour, integration and result, updated with each batch of rows
    postgres_call_log   a table of the database, partitioned by day

The call log grows by thousands of rows a second. A lost row does no harm, but a lost token does. So the call log shares
no transaction with tokens, and on SQLite the call log has a file of its own. A full call log, a full disk or a damaged
log file stops neither calls nor refreshes (ADR 49).

Always true: results have the order in which they were stored, the newest first. A search stops at its time limit and
reports how far it has searched. No row contains a query, a header field or a body.
"""

"""The call log: one row per operation, stored apart from the data that must not be lost.

    call_log_store      the interface for both databases: add, find, prune, within bounds of age and size
    sqlite_call_log     a file beside the database, in segments that are indexed once they are full
    sqlite_segments     the tables of a segment
    sqlite_search       searches the segments
    call_totals         sums by quarter of an hour, integration and result, added with each batch
    postgres_call_log   a table of the database, partitioned by day

The call log grows by thousands of rows a second and may be thrown away; tokens may not. So the call log shares no
transaction with tokens, on SQLite not even a file: a full log, a full disk or a damaged log file stops no call and no
refresh (ADR 49).

Always true: results are in the order in which they were stored, newest first; a search stops at its time limit and
reports how far it searched; no query, header field or body is in a row.
"""

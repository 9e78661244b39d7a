"""The call log: every operation a row, apart from what must not be lost.

    call_log_store      what both databases offer: add, find, prune, within bounds of age and size
    sqlite_call_log     a file beside the database, in segments that are indexed once they are full
    sqlite_segments     the tables of a segment
    sqlite_search       finding in them
    call_totals         sums by quarter of an hour, integration and result, added with each batch
    postgres_call_log   a table of the database, partitioned by day

A log of calls grows by thousands of rows a second and may be thrown away; tokens may not. So it shares no transaction with
them, on SQLite not even a file: a full log, a full disk or a damaged log file stops no call and no refresh (ADR 49).

Always true: what is found is in the order in which it was stored, newest first; a search ends within its time and says how
far it came; no query, header field or body is in a row.
"""

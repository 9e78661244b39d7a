"""The store in a PostgreSQL database, which several nodes share (ADR 18).

    postgres_backend      its engines, and its changes by LISTEN
    postgres_connection   one connection, ready for use, or a cause in words; without SQLAlchemy
    server_preflight      the database looked at before a start, without changing anything
    sqlstates             why PostgreSQL refused, by SQLSTATE (PostgreSQL's manual, appendix A)

The statements themselves are in `gateway/store/`, the same for both databases.

Always true: none of it is imported where the database is a file, but for the table `sqlstates`.
"""

"""The store in a PostgreSQL database, which several nodes share (ADR 18).

    postgres_backend      the engines, and the change feed by LISTEN
    postgres_connection   opens one connection, or describes why it cannot; without SQLAlchemy
    server_preflight      checks the database before a start, without changing anything
    sqlstates             describes PostgreSQL's errors, by SQLSTATE (PostgreSQL's manual, appendix A)

The statements themselves are in `gateway/store/`, the same for both databases.

Always true: a gateway with a SQLite file imports nothing of this package except `sqlstates`.
"""

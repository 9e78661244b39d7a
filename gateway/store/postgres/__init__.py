"""The store in a PostgreSQL database, which several nodes share (ADR 18).

    postgres_backend      the engines, and the change feed by LISTEN
    postgres_connection   opens one connection, or describes why it cannot; without SQLAlchemy
    server_preflight      checks the database before a start, without changing anything
    sqlstates             describes PostgreSQL's errors, by SQLSTATE (PostgreSQL's manual, appendix A)

The SQL statements, which are the same for SQLite and PostgreSQL, are in `gateway/store/`.

Always true: a gateway with a SQLite file imports only `sqlstates` from this package.
"""

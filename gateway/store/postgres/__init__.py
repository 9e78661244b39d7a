"""The store in a PostgreSQL database, which several nodes share.

    sqlstates.py            In words, why PostgreSQL did not do what it was asked, by SQLSTATE (PostgreSQL's manual,
                            appendix A).
    postgres_connection.py  One connection to PostgreSQL, ready for use, or a cause in words. Needs neither
                            SQLAlchemy nor a loop of its own.
    postgres_backend.py     The store in a PostgreSQL database: its engines, and its changes by LISTEN.
    server_preflight.py     A PostgreSQL database looked at without changing anything in it, before any engine
                            touches it.

Always true: but for `sqlstates`, a table, nothing of it is imported where the database is a file.
"""

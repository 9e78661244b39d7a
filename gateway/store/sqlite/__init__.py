"""The store in a SQLite file.

    sqlite_backend.py  The store in a SQLite file: made ready, seen to be there still, its changes noticed.
    sqlite_driver.py   SQLite's driver with one trip to a connection's thread for a statement, where it would
                       otherwise take up to four.
    group_commit.py    For a database with one writer: all writes that wait for it go into one transaction and are
                       on the disk with one commit.
    file_preflight.py  The database file looked at without changing a byte, before any engine touches it.
    sqlite_backup.py   A copy of the SQLite database, made while gateways serve from it: whole, of one moment, and
                       looked at before it counts.
    sqlite_restore.py  A backup put back in the place of the SQLite database, which is kept beside it.

Always true: one process writes at a time; waiting writes are committed together.
"""

"""The store in a SQLite file, for one machine.

    sqlite_backend   creates, opens and watches the file; notices the changes of other processes
    sqlite_driver    one trip to a connection's thread for each statement
    group_commit     runs all waiting writes in one transaction with one commit (ADR 31)
    file_preflight   checks the file before a start, without changing a byte
    sqlite_backup    makes a consistent copy while gateways serve, and verifies the copy
    sqlite_restore   replaces the database with a backup, and keeps the former file beside it

Always true: one process writes at a time; a write that returned is on the disk; the file is readable by its owner
alone.
"""

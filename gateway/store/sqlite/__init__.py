"""The store in a SQLite file, for one machine.

    sqlite_backend   creates, opens and watches the file; notices the changes of other processes
    sqlite_driver    runs a statement, or a whole short transaction, with a single trip to the connection's thread
    group_commit     runs all waiting writes in one transaction with one commit (ADR 31)
    file_preflight   checks the file before a start, without changing a byte
    sqlite_backup    makes a consistent copy while gateways serve, and verifies the copy
    sqlite_restore   replaces the database with a backup, and keeps the replaced file in the same folder

Always true: only one process writes at a time. When a write returns, its data is on the disk. Only the file's owner can
read the file.
"""

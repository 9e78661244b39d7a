"""The store in a SQLite file, for one machine.

    sqlite_backend   the file made ready and opened, watched, its changes noticed by other processes
    sqlite_driver    one trip to a connection's thread for each statement
    group_commit     all waiting writes in one transaction, on the disk with one commit (ADR 31)
    file_preflight   the file looked at before a start, without changing a byte
    sqlite_backup    a copy made while gateways serve: whole, of one moment, checked before it counts
    sqlite_restore   a backup put in place, the former file kept beside it

Always true: one process writes at a time; a write that returned is on the disk; the file is readable by its owner alone.
"""

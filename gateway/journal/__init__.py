"""The refresh journal: token endpoints' replies on this machine's disk until the database has the new credential (ADR 41).

A refresh token may be spent the moment the provider answers; from then until the commit, the reply exists here. In this order:

    place        where the journal lies: beside a SQLite file, or in a folder of this machine
    segment      one file: records appended to preallocated room, so that a full disk loses no reply; what a record holds:
                 begun, reply, released; the reply sealed under a key of its attempt
    writer       the one writer of a process that exchanges tokens
    reader       the one reader: recorded calls that are not released
    slot_files   reads the files of releases before the journal, and writes none
    marker       a locked file of each process that claims leases: it shows whether that process lives

Always true: a reply is in the file before it is handed on, so that ``kill -9`` loses none; a record belongs to one credential
and is useless once the database has a newer one; a torn end of a file ends its reading; a missing folder is an empty journal.
"""

from gateway.journal.marker import ProcessMarker
from gateway.journal.segment import Entry, Recorded, new_attempt, new_key, opened
from gateway.journal.writer import Writer

__all__ = ["Entry", "ProcessMarker", "Recorded", "Writer", "new_attempt", "new_key", "opened"]

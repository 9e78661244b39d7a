"""The refresh journal: token endpoints' replies on this machine's disk until the database has the new credential (ADR 41).

    place.py       Where the journal lies: beside a database's file, or in a folder of this machine for nodes on a
                   shared database.
    record.py      What a record of the journal holds.
    segment.py     One file of the journal: records appended to preallocated room, so that a full disk loses no
                   reply.
    writer.py      The journal's one writer in a process that exchanges tokens: an attempt's call has begun, was
                   answered, is released.
    reader.py      The journal's one reader: which calls of which attempts are recorded and not released.
    slot_files.py  Reads the files that releases before the journal left beside a database, and writes none.
    marker.py      A small locked file of each process that claims leases: others on this machine see by it whether
                   that process lives.

Always true: a record belongs to one credential and is of no use once the database holds a newer one; a torn tail ends
the reading of a file; nothing here raises for want of a folder.
"""

from gateway.journal.marker import ProcessMarker
from gateway.journal.record import Entry, Recorded, new_attempt, new_key, opened
from gateway.journal.writer import Writer

__all__ = ["Entry", "ProcessMarker", "Recorded", "Writer", "new_attempt", "new_key", "opened"]

"""The refresh journal: token endpoints' replies on this machine's disk until the database has the new credential (ADR 41).

A provider that rotates refresh tokens gives the new one once, in one reply. From then until the commit the reply exists
nowhere else, so the process that exchanges a token writes the reply, sealed, into the journal before it hands it on. A process
that takes up a refresh that another left open reads the journal first and asks the provider only for what is not there.

    place.py       which folder: beside a SQLite file, or one of this machine for nodes on a shared database
    record.py      what a record holds: whose it is, and the reply sealed under a key of this one attempt
    segment.py     the file format: framed records in preallocated files, and the lock that says whether the writer lives
    writer.py      the one writer of a process: begun, reply, released
    reader.py      the one reader: what is not released, in files of the living and of the dead
    marker.py      a locked file by which others on this machine know whether a lease's holder lives
    slot_files.py  reads what releases before this format left

Always true: a record belongs to one credential (row and version) and is of no use once the database holds a newer one; a
torn or damaged tail ends the reading of a file; nothing here raises for want of a folder, the refresh goes on without.
"""

from gateway.journal.marker import ProcessMarker
from gateway.journal.record import Entry, Recorded, new_attempt, new_key, opened
from gateway.journal.writer import Writer

__all__ = ["Entry", "ProcessMarker", "Recorded", "Writer", "new_attempt", "new_key", "opened"]

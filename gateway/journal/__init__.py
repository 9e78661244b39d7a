"""The refresh journal: token endpoints' replies on this machine's disk until the database has the new credential (ADR 41).

A refresh token may be spent as soon as the provider replies; until the commit, the reply exists only here. Modules:

    place        where the journal is: beside a SQLite file, or in a folder of this machine
    segment      one file: records appended to preallocated space, so that a full disk loses no reply; the kinds of
                 records: begun, reply, released; the reply is sealed under a key of its attempt
    writer       the one writer of a process that exchanges tokens
    reader       the one reader: recorded calls that are not released
    slot_files   reads the files of releases before the journal, and writes none
    marker       a locked file of each process that claims leases: it shows whether that process is alive

Always true: a reply is in the file before it is returned, so that ``kill -9`` loses none; a record belongs to one
credential and is useless once the database has a newer one; reading stops at a torn record; a missing folder is an
empty journal.
"""

from gateway.journal.marker import ProcessMarker
from gateway.journal.segment import Entry, RecordedReply, new_attempt, new_key, open_reply
from gateway.journal.writer import JournalWriter

__all__ = ["Entry", "JournalWriter", "ProcessMarker", "RecordedReply", "new_attempt", "new_key", "open_reply"]

"""The refresh journal: token endpoints' replies on this machine's disk until the database has the new credential (ADR 41).

Many providers accept a refresh token only once. Until the database commits the new tokens, only the journal has them.
Modules:

    journal_folder   chooses the journal's folder: next to the SQLite file, or a local folder for a shared database.
                     Finds the folders of processes that were started with another spelling of the database's address
    segment          defines a journal file and its records (begun, reply, released); seals replies. A file's space is
                     allocated in advance, so that a full disk loses no reply
    writer           writes the records of a process that calls token endpoints
    reader           reads the records of all processes, and returns the records that are not released yet
    slot_files       reads the files of releases that had no journal yet; never writes these files
    marker           keeps a locked file for each process that claims leases, to show that the process is alive

A record is released as soon as the database has its content, or when nobody needs it.

Always true: if the journal can be written, a successful reply is in it before the caller gets the reply, so that
``kill -9`` loses no token. A record belongs to one version of a credential, and is useless as soon as the database has
a newer version. Reading stops at an incomplete record. A missing folder counts as an empty journal.
"""

from gateway.journal.marker import ProcessMarker
from gateway.journal.segment import Entry, RecordedReply, new_attempt, new_key, open_reply
from gateway.journal.writer import JournalWriter

__all__ = ["Entry", "JournalWriter", "ProcessMarker", "RecordedReply", "new_attempt", "new_key", "open_reply"]

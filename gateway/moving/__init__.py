"""Moving in and out: connections of another gateway, of files, and of our own bundles (docs/moving.md).

    moved_connection.py  A connection on its way, whatever it comes from: as a record, as a JSON object, and what
                         became of it.
    peer.py              The other gateway by its public API: one patient request after the other.
    foreign_files.py     A file ▸ what it holds: our bundles, JSON Lines, CSV.
    bundle.py            What a bundle holds: a line of JSON for its beginning, for each integration and connection,
                         and for its end.
    sealed_stream.py     A stream of any length under a passphrase, read and written in constant memory (ADR 30).
    importer.py          Everything of one source, imported: integrations first, then connections, a few at once.
    import_one.py        One connection is imported: its credential converted, checked, stored, or refused with a
                         reason.
    preview.py           What moving in from another gateway would take: what works at once, what is to be done, and
                         in which order.
    parallel_work.py     Many at a time, but never more than so many: what is waited for holds memory and places at
                         providers.

Always true: a run can be repeated: what is there already is not made twice; a bundle is sealed from its first byte.
"""

"""Moving in and out: connections of another gateway, of files, and of our own bundles (docs/moving.md).

    moved_connection   a connection in transit: as a record, as JSON, and its result
    peer               another gateway's public API, called with retries
    foreign_files      a file's content: our bundles, JSON Lines, CSV
    bundle             the lines of a bundle: head, integrations, connections, end
    sealed_stream      a stream of any length, encrypted with a passphrase in constant memory (ADR 30)
    importer           imports one source: integrations first, then connections, several at a time
    import_one         imports one connection: converts, checks and stores it, or refuses it with a reason
    preview            previews an import: what works immediately, and what to do before
    parallel_work      runs work in parallel with a limit; counts the outcomes

Always true: a run can be repeated, and creates nothing twice; a bundle is encrypted from its first byte; one faulty line
stops no other line.
"""

"""Moving in and out: connections of another gateway, of files, and of our own bundles (docs/moving.md).

    moved_connection   a connection in transit: as a record, as JSON, and its result
    peer               another gateway by its public API: one patient request after the other
    foreign_files      a file's content: our bundles, JSON Lines, CSV
    bundle             the lines of a bundle: head, integrations, connections, end
    sealed_stream      a stream of any length under a passphrase, in constant memory (ADR 30)
    importer           all of one source: integrations first, then connections, a few at once
    import_one         one connection: converted, checked, stored, or refused with a reason
    preview            what a move would take: what works at once, what is to be done
    parallel_work      many at a time within a bound

Always true: a run can be repeated, and what is here is not made twice; a bundle is sealed from its first byte; one line that
is wrong stops no other.
"""

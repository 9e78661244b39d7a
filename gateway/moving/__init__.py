"""Imports and exports connections: from another gateway, from files, in bundles of our own (docs/moving.md).

    moved_connection   a connection in transit: as a record, as JSON, and its result
    peer               the API of another gateway, such as Nango, called with retries
    foreign_files      connections and integrations from files: bundles, JSON Lines, CSV
    bundle             the lines of a bundle: head, integrations, connections, end
    sealed_stream      a stream of any length, encrypted with a passphrase in constant memory (ADR 30)
    importer           imports one source: integrations first, then connections, several at a time
    import_one         imports one connection: converts, checks and stores it, or refuses it with a reason
    preview            previews an import: what works immediately, what to do, and in which order
    parallel_work      runs work in parallel with a limit; counts the outcomes

Always true: an import can be repeated and creates nothing twice; a bundle is encrypted from its first byte; a connection
that cannot be imported is reported and does not stop the others, except for a damaged bundle.
"""

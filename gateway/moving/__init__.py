"""Imports and exports connections: from another gateway, from files, in the gateway's own bundles (docs/moving.md).

    moved_connection   defines a connection that is imported: as a record, as JSON, and the outcome of its import
    peer               calls the API of another gateway, such as Nango, with retries
    foreign_files      reads connections and integrations from files: bundles, JSON Lines, CSV
    bundle             writes and reads the lines of a bundle: head, integrations, connections, end
    sealed_stream      encrypts a stream of any length with a passphrase, in constant memory (ADR 30)
    importer           imports one source: integrations first, then connections, several at a time
    import_one         imports one connection: converts, checks and stores it, or refuses it with a reason
    preview            previews an import: what works immediately, what to do, and in which order
    parallel_work      runs work in parallel with a limit; counts the outcomes

Always true: a repeated import creates nothing twice. A bundle is encrypted from its first byte. A connection that cannot
be imported is reported, and the import continues with the next connection. Only a damaged bundle stops the import.
"""

"""Compares the catalog's entries with the statements of independent sources, and grades how well each entry is
confirmed.

    collect       a folder of facts ▸ statements.jsonl and sources.json, which are kept in the repository
    statements    reads them
    compare       whether an entry agrees with a statement, after both are normalised
    assess        an entry and the statements about it ▸ its `evidence`
    drift         ``python -m tools.evidence.drift``: where entries differ from the sources
    by_hand       writes `evidence` into the hand-written entries

A source that was not looked up (general knowledge) never confirms anything.
"""

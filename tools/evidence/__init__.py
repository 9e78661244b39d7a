"""Compares the catalog's entries with the statements of independent sources, and grades how well each entry is
confirmed.

    collect       writes statements.jsonl and sources.json from a folder of facts; the repository keeps both files
    statements    reads these files; a statement is what one source says about one field of a provider
    compare       decides whether an entry agrees with a statement, after both are normalised
    assess        returns the `evidence` of an entry from the statements about it
    drift         ``python -m tools.evidence.drift`` prints where entries differ from the sources
    by_hand       writes `evidence` into the hand-written entries

A source that was not looked up (general knowledge) never confirms anything.
"""

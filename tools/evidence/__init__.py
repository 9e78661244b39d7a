"""Compares the catalog's entries with what independent sources state, and grades how far each entry is borne out.

    collect       a folder of facts ▸ statements.jsonl and sources.json, which stay in the repository as bare facts
    statements    reads them
    compare       does an entry agree with a statement? what both must look like to be compared
    assess        an entry and the statements about it ▸ its `evidence`
    drift         ``python -m tools.evidence.drift``: where entries differ from what sources state
    by_hand       writes `evidence` into the entries that people wrote whole

Always true: a source that was not looked up (general knowledge) bears out nothing.
"""

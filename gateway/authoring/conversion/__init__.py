"""Entries in the shape of public catalogs (one file, keyed by name) ▸ entries of ours, and notes on every field.

    catalog_file.py  A file of many entries ▸ entries that load, and files of ours, and everything that was lost.
    convert.py       One entry of theirs, its aliases expanded ▸ the values of one of ours.
    token_fields.py  How tokens are asked for and the API is called, where the other format says it in another way.
    notes.py         What came of a field on its way into our format; plain values; ``A || B``.

Always true: what cannot be converted is named, per entry and field.
"""

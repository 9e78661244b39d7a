"""Converts entries of public catalogs (one YAML file, keyed by name) into entries of ours, with a note on every field.

Used by `gateway catalog import FILE`. Read in this order:

    catalog_file   converts a file of many entries into entry files, and reports fields that could not be converted
    convert        converts one entry, with its aliases expanded, into the values of our entry
    token_fields   converts fields of token requests and API calls whose format differs
    notes          the note on a field; plain values; defaults written as ``A || B``

Always true: a field that cannot be converted is reported with its entry; nothing is silently dropped.
"""

"""Converts entries of public catalogs (one YAML file, keyed by name) into gateway entries, with a note on every field.

The command `gateway catalog import FILE` uses this package. Modules in reading order:

    catalog_file   converts a file of many entries into entry files, and reports fields that could not be converted
    convert        converts one entry, after its aliases are expanded, into the values of a gateway entry
    token_fields   converts fields of token requests and API calls, as far as their format differs
    notes          keeps the notes on fields; converts plain values, and fallbacks that are written as ``A || B``

Always true: a field that cannot be converted is reported with its entry. Nothing is silently dropped.
"""

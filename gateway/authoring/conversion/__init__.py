"""Converts entries of public catalogs (one YAML file, keyed by name) into entries of ours, with a note on every field.

Behind `gateway catalog import FILE`. Read in this order:

    catalog_file   a file of many entries into entries that load, and everything that could not be converted
    convert        one entry, its aliases expanded, into the values of one of ours
    token_fields   how tokens are requested and the API is called, where the two formats differ
    notes          the note on a field; plain values; defaults written as ``A || B``

Always true: what cannot be converted is reported by entry and field; nothing is dropped in silence.
"""

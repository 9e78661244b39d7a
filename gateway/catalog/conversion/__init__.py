"""Entries in the shape of the field's public catalogs (one file, keyed by name) ▸ entries of ours, and what was lost."""

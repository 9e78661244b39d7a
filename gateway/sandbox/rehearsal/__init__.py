"""A rehearsal: one entry of the catalog, with the sandbox in the part of its provider and a real gateway in front of it."""

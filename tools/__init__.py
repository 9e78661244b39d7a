"""Generators of files in this repository: run after a change of their sources, never by the gateway."""

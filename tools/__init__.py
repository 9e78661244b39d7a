"""Generators of files in this repository. Run them after a change of their sources; the gateway never runs them."""

"""Generators of files in this repository. Run a generator after its sources change. The gateway never runs them."""

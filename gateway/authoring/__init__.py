"""Tools for authors of catalog entries. A gateway that serves loads none of them.

    conversion   converts a file with entries of a public catalog into our entries
    rehearsal    tests one entry from connect to revocation: a real gateway calls a sandbox that plays the provider

The commands are `gateway catalog import` and `gateway catalog test` (`cli/catalog/`).

Always true: nothing outside `cli` imports this package; an import-linter contract in pyproject.toml checks it.
"""

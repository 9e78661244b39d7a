"""Tools for authors of catalog entries. A gateway that serves loads none of them.

    conversion   converts a file with entries of a public catalog into catalog entries of this gateway
    rehearsal    tests one entry from connect to revocation: a real gateway calls a sandbox that plays the provider

The package `cli/catalog/` has the commands `gateway catalog import` and `gateway catalog test`, which use these tools.

Always true: only `cli` imports this package. An import-linter contract in pyproject.toml checks this rule.
"""

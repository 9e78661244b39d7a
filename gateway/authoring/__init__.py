"""Tools for authors of catalog entries. A gateway that serves loads none of them.

    conversion   entries of public catalogs in one file, converted into entries of ours
    rehearsal    one entry tried from connect to revocation: the sandbox plays its provider, a real gateway calls it

The commands are `gateway catalog import` and `gateway catalog test` (`cli/catalog/`).

Always true: nothing outside `cli` imports this package; an import-linter contract in pyproject.toml checks it.
"""

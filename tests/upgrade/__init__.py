"""Stores, configuration files and bundles of released versions, which the present code must be able to use.

Each version has a folder: `0_2_0` and so on, written once by `python -m tests.upgrade.write_fixture` of that version
and never changed. The tests use the product as its users do: the command `gateway`, the HTTP API, files.
"""

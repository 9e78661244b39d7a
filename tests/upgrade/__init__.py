"""Stores, configuration files and bundles of released versions, and what the present code must make of them.

A folder for each version: `0_2_0` and so on, written once by `python -m tests.upgrade.write_fixture` of that version and never
changed again. Everything here uses the product as its users do: the command `gateway`, the HTTP API, files.
"""

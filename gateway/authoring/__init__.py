"""Tools for authors of catalog entries. A gateway that serves loads none of them.

Always true: nothing outside cli imports it.
"""

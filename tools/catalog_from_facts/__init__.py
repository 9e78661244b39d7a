"""Generates catalog entries from a file of facts about providers and the corrections in tools/corrections."""

"""Makes catalog entries from a file of bare facts and the corrections kept beside it."""

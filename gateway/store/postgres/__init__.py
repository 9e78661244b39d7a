"""PostgreSQL beneath the store. But for `causes`, a table, nothing of it is imported where that is a file."""

"""The revisions of the schema, one file each: ``r<number>_<what it adds>.py``.

The number orders the revisions; `revision` and `down_revision` in each file link them for Alembic. To add a revision,
copy the last one: give it the next number, name the last one in `down_revision`, describe in its docstring what the
rows are for, and make the same change in `store/tables.py`. `tests/gateway/store/test_migrations.py` compares both, on
SQLite and PostgreSQL.

Always true: a released revision is never changed; a new column has a default or may be NULL, since nodes of the
previous release read and write the same tables during a rolling restart.
"""

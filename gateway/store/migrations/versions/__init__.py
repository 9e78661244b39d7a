"""The revisions of the schema, one file each: ``r<number>_<what it adds>.py``.

`revision` and `down_revision` in each file link the revisions for Alembic, in the order of their numbers. To add a
revision, copy the last one. Give the copy the next number, and name the last revision in its `down_revision`. In the
docstring of the copy, say what the rows are for. Make the same change in `store/tables.py`.
`tests/gateway/store/test_migrations.py` compares the result of the revisions with `store/tables.py`, on SQLite and
PostgreSQL.

Always true: a released revision is never changed. A new column has a default or may be NULL, because nodes of the
previous release read and write the same tables during a rolling restart.
"""

"""Runs the revisions for Alembic, on the connection that `upgrade` passes in."""

from alembic import context

from gateway.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # all revisions and the version row are one transaction, also on SQLite, where the caller has begun it
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()

"""Runs the revisions for Alembic, on the connection that `upgrade` passes in."""

from alembic import context

from gateway.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # all revisions and the version row are one transaction; SQLite needs an explicit BEGIN
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()

"""The gateway connects by TLS to a database on another machine, refuses a certificate that does not match, and does not
write a database that its administrator has made read-only.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from gateway.config import PoolConfig
from gateway.store import StoreRefused, open_store
from gateway.store.postgres.postgres_connection import cause_in_words, connect
from gateway.vault import Keyring
from tests.fakes.certificate import tls_contexts
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PASSWORD, PostgresServer
from tests.fakes.tls_postgres import tls_proxy_before
from tests.gateway.store.conftest import KEY, NOW, REF, new


@pytest.fixture
async def tls_url(tmp_path: Path, postgres_server: PostgresServer, empty_database: str) -> AsyncIterator[str]:
    """Return the URL of an empty database at `localhost`, the name in the server's certificate."""
    server, _ = tls_contexts("localhost", tmp_path)
    async with tls_proxy_before(postgres_server.port, server) as port:
        head, _, name = empty_database.rpartition("/")
        yield f"{head.rpartition('@')[0]}@localhost:{port}/{name}"


async def test_connection_uses_tls_and_verifies_the_server(tls_url: str, tmp_path: Path) -> None:
    url = f"{tls_url}?sslmode=verify-full&sslrootcert={tmp_path / 'certificate.pem'}"
    store = await open_store(url, Keyring([KEY]), environments={"dev"})
    try:
        await store.connections.put(new(), now=NOW)
        assert await store.connections.get(REF) is not None
        await store.changes.version()
    finally:
        await store.close()


@pytest.mark.parametrize("why", ["another name", "another authority"])
async def test_server_with_a_wrong_certificate_is_refused(tls_url: str, tmp_path: Path, why: str) -> None:
    trusted = tmp_path / "certificate.pem"
    if why == "another name":
        tls_url = tls_url.replace("@localhost:", "@127.0.0.1:")
    else:
        other = tmp_path / "other"
        other.mkdir()
        tls_contexts("localhost", other)
        trusted = other / "certificate.pem"
    url = f"{tls_url}?sslmode=verify-full&sslrootcert={trusted}"
    with pytest.raises(StoreRefused, match="certificate is invalid") as refusal:
        await open_store(url, Keyring([KEY]), environments={"dev"}, pool=PoolConfig(connect_s=5))
    message = str(refusal.value)
    assert "\n" not in message
    assert PASSWORD not in message
    assert "_ssl.c" not in message


async def test_database_that_its_administrator_made_read_only_is_not_written(empty_database: str) -> None:
    name = empty_database.rpartition("/")[2]
    administrator = await asyncpg.connect(empty_database)
    await administrator.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    await administrator.close()
    writer = await connect(empty_database, connect_s=PATIENCE_S, statement_s=PATIENCE_S)
    try:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError) as fault:
            await writer.execute("CREATE TABLE written ()")
        # A pooler in transaction mode passes on the read-only session of the gateway's check at the start.
        assert "use a connection pooler only in session mode" in cause_in_words(fault.value, PATIENCE_S)
    finally:
        await writer.close()

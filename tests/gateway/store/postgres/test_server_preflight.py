"""Opening a PostgreSQL database: one of several nodes prepares it. An unusable database is refused with one line of
text.
"""

import asyncio
import os
import sys

import pytest

from gateway.config import PoolConfig
from gateway.store import Store, StoreRefused, open_store
from gateway.vault import Keyring
from tests.fakes.gateways import free_socket
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PASSWORD, PostgresServer
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new
from tests.gateway.store.test_opening import STARTER

OTHER = os.urandom(32)
PATIENT = PoolConfig(connect_s=PATIENCE_S, wait_s=PATIENCE_S, statement_s=PATIENCE_S)


@pytest.fixture
def backend() -> str:
    """Run these tests on PostgreSQL only, because they check the server."""
    return "postgresql"


async def opening_error(url: str, key: bytes = KEY, pool: PoolConfig = PATIENT) -> str:
    with pytest.raises(StoreRefused) as refusal:
        await open_store(url, Keyring([key]), environments={"dev", "another"}, pool=pool)
    message = str(refusal.value)
    assert "\n" not in message
    assert PASSWORD not in message
    return message


async def all_rows(server: PostgresServer, url: str) -> dict[str, list[str]]:
    """Return each table by schema and name, with its rows."""
    name = url.rpartition("/")[2]
    tables = await server.run(
        "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
        name,
    )
    return {
        table: [row for (row,) in await server.run(f"SELECT t::text FROM {table} t ORDER BY 1", name)]
        for (table,) in tables
    }


async def test_a_wrong_key_is_refused_immediately_and_nothing_changes(
    open_test_store: StoreOpener, url: str, postgres_server: PostgresServer
) -> None:
    store = await open_test_store()
    await store.connections.put(new(), now=NOW)
    before = await all_rows(postgres_server, url)
    assert len(before) > 8
    assert "store.encryption_keys" in await opening_error(url, OTHER)
    assert await all_rows(postgres_server, url) == before


async def test_changed_data_key_differs_from_a_wrong_key(
    open_test_store: StoreOpener, url: str, postgres_server: PostgresServer
) -> None:
    await open_test_store()
    await postgres_server.run(f"UPDATE data_keys SET wrapped = decode('{'00' * 60}', 'hex')", url.rpartition("/")[2])
    assert "damaged" in await opening_error(url)


async def test_stored_rows_exist_after_a_restart_of_the_server(
    open_test_store: StoreOpener, url: str, postgres_server: PostgresServer
) -> None:
    first = await open_test_store()
    await first.connections.put(new(), now=NOW)
    await asyncio.to_thread(postgres_server.stop)
    postgres_server.launch()
    await postgres_server.responses()
    found = await (await open_test_store()).connections.get(REF)
    assert found is not None
    assert first.vault.open_json(found.credential)["apiKey"] == "k"


async def test_missing_server_is_reported_in_one_line(unused_tcp_port: int) -> None:
    result = await opening_error(f"postgresql://u:{PASSWORD}@127.0.0.1:{unused_tcp_port}/db")
    assert result == (
        f"PostgreSQL database 'db' at 127.0.0.1:{unused_tcp_port} cannot be reached: nothing listens at this address. "
        "Start it, or correct store.url."
    )


async def test_silent_server_times_out() -> None:
    with free_socket() as silent:
        silent.listen()  # the port is open, but nothing accepts connections
        port = silent.getsockname()[1]
        url = f"postgresql://u:{PASSWORD}@127.0.0.1:{port}/db"
        assert "does not respond within 1 s" in await opening_error(url, pool=PoolConfig(connect_s=1))


async def test_a_refused_login_is_reported_with_its_reason(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    assert "refuses the password" in await opening_error(empty_database.replace(PASSWORD, "wrong"))
    assert "no such database" in await opening_error(postgres_server.url("nowhere"))
    assert "cannot be reached" in await opening_error(empty_database + "?sslmode=require")


async def test_a_newer_database_is_refused(
    open_test_store: StoreOpener, empty_database: str, postgres_server: PostgresServer
) -> None:
    await (await open_store(empty_database, Keyring([KEY]), environments={"dev"})).close()
    name = empty_database.rpartition("/")[2]
    await postgres_server.run("UPDATE alembic_version SET version_num = '9999'", name)
    before = await all_rows(postgres_server, empty_database)
    assert "newer version" in await opening_error(empty_database)
    assert await all_rows(postgres_server, empty_database) == before


@pytest.mark.parametrize("table", ["recipes (name text)", "alembic_version (version_num text)"])
async def test_another_programs_database_is_refused_unchanged(
    table: str, empty_database: str, postgres_server: PostgresServer
) -> None:
    name = empty_database.rpartition("/")[2]
    await postgres_server.run(f"CREATE TABLE {table}", name)
    before = await all_rows(postgres_server, empty_database)
    assert "another program" in await opening_error(empty_database)
    assert await all_rows(postgres_server, empty_database) == before
    await postgres_server.run("CREATE SCHEMA ours", name)
    store = await open_store(f"{empty_database}?search_path=ours", Keyring([KEY]), environments={"dev"})
    await store.connections.put(new(), now=NOW)
    await store.close()
    after = await all_rows(postgres_server, empty_database)
    assert {table.partition(".")[0] for table in after} == {"public", "ours"}


async def test_a_user_who_may_not_create_tables_is_reported_with_the_grant_to_give(
    empty_database: str, postgres_server: PostgresServer
) -> None:
    name = empty_database.rpartition("/")[2]
    await postgres_server.run(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'", name)
    result = await opening_error(empty_database.replace("//gateway:", f"//{name}:"))
    assert result.endswith(f'GRANT CREATE ON SCHEMA public TO "{name}".')
    await postgres_server.run(f"GRANT CREATE ON SCHEMA public TO {name}", name)
    await (
        await open_store(empty_database.replace("//gateway:", f"//{name}:"), Keyring([KEY]), environments={"dev"})
    ).close()


async def test_text_that_is_not_unicode_is_refused(postgres_server: PostgresServer) -> None:
    await postgres_server.run("DROP DATABASE IF EXISTS narrow")
    await postgres_server.run("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    assert "ENCODING 'UTF8'" in await opening_error(postgres_server.url("narrow"))


async def test_several_stores_can_open_an_empty_database_at_the_same_time(empty_database: str) -> None:
    """The nodes create the tables one after the other. The order does not matter."""
    opening = [open_store(empty_database, Keyring([KEY]), environments={"dev", "prod"}) for _ in range(4)]
    stores: list[Store] = await asyncio.gather(*opening)
    for n, store in enumerate(stores):
        await store.connections.put(new(REF._replace(connection_id=f"c{n}")), now=NOW)
    for store in stores:
        for n in range(4):
            found = await store.connections.get(REF._replace(connection_id=f"c{n}"))
            assert found is not None
            assert store.vault.open_json(found.credential)["apiKey"] == "k"
    for store in stores:
        await store.close()


async def test_processes_that_start_together_on_an_empty_database_all_succeed(empty_database: str) -> None:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-c", STARTER, empty_database, KEY.hex())
    starters = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(3)]
    for starter in starters:
        assert starter.stdout is not None
        assert await starter.stdout.readline() == b"ready\n"
    ended = await asyncio.gather(*(starter.communicate(b"go\n") for starter in starters))
    assert [errors.decode() for _, errors in ended] == ["", "", ""]


async def test_a_unix_socket_is_accepted(postgres_server: PostgresServer, empty_database: str) -> None:
    url = postgres_server.socket_url(empty_database.rpartition("/")[2])
    store = await open_store(url, Keyring([KEY]), environments={"dev"})
    await store.connections.put(new(), now=NOW)
    await store.close()
    again = await open_store(empty_database, Keyring([KEY]), environments={"dev"})
    assert await again.connections.get(REF) is not None, "the row written through the socket is in that database"
    await again.close()

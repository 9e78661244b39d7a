"""An empty SQLite database with the gateway's tables. To copy it is ten times as fast as to create it.

If a gateway has the encryption key that most tests use, the database also contains its environments, each with a data
key.
"""

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from gateway.store import open_store
from gateway.vault import Keyring


def create_database(path: Path, key: str = "", environments: Collection[str] = ()) -> None:
    """Create the database at `path`, unless the file exists. With a key, the database has `environments` and their data
    keys.
    """
    if not path.exists():
        shutil.copyfile(_migrated_database(key, tuple(sorted(environments))), path)
        path.chmod(0o600)


@cache
def _migrated_database(key: str, environments: tuple[str, ...]) -> Path:
    path = Path(tempfile.mkdtemp(prefix="gateway-tests-")) / "gateway.db"
    keyring = Keyring([base64.b64decode(key) or os.urandom(32)])

    async def make() -> None:
        await (await open_store(f"sqlite:///{path}", keyring, environments=environments)).close()

    with ThreadPoolExecutor(1) as aside:  # in a thread, because the caller's event loop may be running
        aside.submit(lambda: asyncio.run(make())).result()
    return path

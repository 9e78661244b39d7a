"""An empty SQLite database that has our tables: copying one is ten times as quick as making one."""

import asyncio
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from gateway.store import open_store
from gateway.vault import Keyring


def lay(path: Path) -> None:
    """Such a database at `path`, unless there is a file already."""
    if not path.exists():
        shutil.copyfile(_original(), path)
        path.chmod(0o600)


@cache
def _original() -> Path:
    path = Path(tempfile.mkdtemp(prefix="gateway-tests-")) / "gateway.db"

    async def make() -> None:
        await (await open_store(f"sqlite:///{path}", Keyring([os.urandom(32)]), environments=())).close()

    with ThreadPoolExecutor(1) as aside:  # the caller's loop may be running
        aside.submit(lambda: asyncio.run(make())).result()
    return path

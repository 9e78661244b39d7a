"""Caches the checked entries of a large folder in one file, which loads in milliseconds.

Without the cache file, a thousand YAML files take a second to load. The first line of the cache file has a digest of its
sources: every YAML file, the earlier folders, and the code that checks entries. If a source changes, the digest differs
and the cache file is built again; its age does not matter. The first line also lists the auth modes and scripts that the
entries use. A process that lacks one of them does not read the cache file. The file holds only JSON, nothing executable.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pydantic

from gateway import catalog, documents
from gateway.catalog.checks import SCRIPT_FIELDS, ExternalNames

MIN_FILES: Final = 100  # a folder with fewer files gets no cache file, because few files load fast without a cache
_FILE_NAME: Final = ".compiled.jsonl"


def cache_key(files: Sequence[Path], earlier_keys: Collection[str]) -> str:
    """Return a digest of everything that the checked entries of `files` depend on.

    `earlier_keys`: the cache keys of the folders that are read before this folder.
    """
    digest = hashlib.sha256()
    digest.update(json.dumps([code_digest(), pydantic.VERSION, sorted(earlier_keys)]).encode())
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """Return a digest of the code that reads and checks entries, because other code can produce other entries."""
    digest = hashlib.sha256()
    for folder in (*catalog.__path__, *documents.__path__):
        for path in sorted(Path(folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def load(folder: Path, key: str, external_names: ExternalNames) -> dict[str, bytes] | None:
    """Return the cached entries of `folder` by name. Each value has the format of `CatalogEntry.content`.

    `key`: the result of `cache_key` for the present files. Return None if there is no complete cache file with this
    key, if other users can write the file, or if an entry uses an auth mode or a script that is not in
    `external_names`.
    """
    for path in _cache_paths(folder):
        try:
            if not _is_trusted(path):
                continue
            line, _, body = path.read_bytes().partition(b"\n")
            header = json.loads(line)
            if (header["key"], header["sha256"]) != (key, hashlib.sha256(body).hexdigest()) or not _are_known(
                header, external_names
            ):
                continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
        pairs = (line.partition(b"\t") for line in body.splitlines())
        return {name.decode(): content for name, _, content in pairs}
    return None


def save(folder: Path, key: str, entries: Mapping[str, bytes]) -> None:
    """Save `entries` for the next start, in a cache file in `folder`.

    If `folder` cannot be written, the file is saved in the user's cache folder. If that fails too, nothing is saved.
    """
    body = b"".join(name.encode() + b"\t" + content + b"\n" for name, content in entries.items())
    header = {"key": key, "sha256": hashlib.sha256(body).hexdigest(), **_used_names(entries)}
    text = json.dumps(header).encode() + b"\n" + body
    for path in _cache_paths(folder):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, text)
        except OSError:
            continue
        return


def _used_names(entries: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return the auth modes and scripts that the entries use."""
    entry_values = [json.loads(content) for content in entries.values()]
    scripts = {entry[field] for entry in entry_values for field in SCRIPT_FIELDS if field in entry}
    return {"modes": sorted({entry["auth_mode"] for entry in entry_values}), "scripts": sorted(scripts)}


def _are_known(header: Mapping[str, Sequence[str]], external_names: ExternalNames) -> bool:
    return set(header["modes"]) <= set(external_names.modes) and (
        external_names.scripts is None or set(header["scripts"]) <= set(external_names.scripts)
    )


def _cache_paths(folder: Path) -> Iterator[Path]:
    yield folder / _FILE_NAME
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # the user has no home directory
        return
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    yield home / "integration-gateway" / f"catalog-{digest}.jsonl"


def _is_trusted(path: Path) -> bool:
    """Return whether only this user or root can have written the file `path`.

    A file that others can write is not read, because the entries decide where credentials are sent.
    """
    status = path.stat()
    return status.st_uid in {0, os.geteuid()} and not status.st_mode & 0o022


def _write(path: Path, text: bytes) -> None:
    """Replace the file atomically, so that other processes never read an incomplete file."""
    import tempfile

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{_FILE_NAME}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise

"""`store.url` accepts libpq's connection URIs, refuses parameters that would be ignored, and never prints a
password."""

from pathlib import Path

import pytest

from gateway.config import Faults, parse
from tests.fakes.gateways import ENCRYPTION_KEY

GOOD = (
    "postgresql://u:p4ss@h/d",
    "postgresql://h/d",
    "postgresql://u@[::1]:5433/d",
    "postgresql://u:p4ss@one:5432,two:5433/d?target_session_attrs=primary",
    "postgresql://u:p%40ss%2F%23@h/d?sslmode=verify-full&application_name=us",
    "postgresql:///d?host=/run/postgresql&port=5433",
    "postgresql://u:p4ss@/d?host=/run/postgresql",
    "postgresql://h/d?search_path=gateway",
)
BAD = {
    "postgresql://u:p4ss@h": "names no database",
    "postgresql://u:p4ss@h/": "names no database",
    "postgres://u:p4ss@h/d": "write postgresql://",
    "postgresql+asyncpg://u:p4ss@h/d": "write postgresql://",
    "postgresql://u:p@4ss@h/d": "write %40",
    "postgresql://u:p/4ss@h/d": "%2F",
    "postgresql://u:p#4ss@h/d": "write %23",
    "postgresql://u:p4ss@h:0/d": "must be postgresql://",
    "postgresql://u:p4ss@h:99999/d": "must be postgresql://",
    "postgresql://u:p4ss@one,,two/d": "must be postgresql://",
    "postgresql://u:p4ss@h/d?sslmod=require": "not known here: sslmod",
    "postgresql://u:p4ss@h/d?sslmode=verify_full": "has an unknown sslmode; write one of disable, allow",
    "postgresql://u:p4ss@h/d?sslmode": "name=value",
    "postgresql://u:p4ss@h/d?port=x": "a port that is not a number",
    "postgresql://u:p4 ss@h/d": "without spaces",
    "mysql://u:p4ss@h/d": "must be sqlite:///gateway.db or postgresql://",
}


def store_url(url: str, base: Path = Path("/etc/gateway")) -> str:
    return parse({"store": {"url": url, "encryption_keys": [ENCRYPTION_KEY]}}, base=base, environ={}).store.url


@pytest.mark.parametrize("url", GOOD)
def test_valid_url_is_unchanged(url: str) -> None:
    assert store_url(url) == url


@pytest.mark.parametrize("url", BAD)
def test_invalid_store_url_is_reported_without_the_password(url: str) -> None:
    with pytest.raises(Faults) as faults:
        store_url(url)
    (fault,) = faults.value.faults
    assert fault.where == "store.url"
    assert BAD[url] in fault.message
    assert "4ss" not in str(faults.value)


def test_files_are_relative_to_the_configuration() -> None:
    url = "postgresql://h/d?sslrootcert=our%20ca.pem&sslmode=verify-full&sslkey=/abs/key&passfile=../pass"
    assert store_url(url, Path("/etc/a b")) == (
        "postgresql://h/d?sslrootcert=/etc/a%20b/our%20ca.pem&sslmode=verify-full&sslkey=/abs/key"
        "&passfile=/etc/a%20b/../pass"
    )


def test_the_pool_is_bounded() -> None:
    values = {"url": "postgresql://h/d", "encryption_keys": [ENCRYPTION_KEY], "pool": {"readers": 0, "wait_s": "never"}}
    with pytest.raises(Faults) as faults:
        parse({"store": values}, base=Path(), environ={})
    assert [fault.where for fault in faults.value.faults] == ["store.pool.readers", "store.pool.wait_s"]

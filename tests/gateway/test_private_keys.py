"""Private keys of any size are read quickly, and only if their parts are consistent."""

import json
import math
import random
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from joserfc.jwk import RSAKey

from gateway.auth.pasted_keys import BadKey, signing_key
from gateway.private_keys import MAX_RSA_BITS, _check_parts, private_key_in, rsa_key_in


def pem(key: Any) -> str:
    written: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return written.decode()


def large_key(bits: int) -> rsa.RSAPrivateKey:
    """Return a consistent key with composite "primes", because finding primes of that size takes too long."""
    drawn = random.Random(3)
    while True:
        p, q = (drawn.getrandbits(bits // 2) | 1 | 3 << (bits // 2 - 2) for _ in range(2))
        both = math.lcm(p - 1, q - 1)
        if math.gcd(65537, both) == 1 and math.gcd(p, q) == 1:
            break
    d = pow(65537, -1, both)
    public = rsa.RSAPublicNumbers(65537, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def test_key_signs_after_it_was_read() -> None:
    key = rsa.generate_private_key(65537, 2048)
    read = private_key_in(pem(key))
    assert isinstance(read, rsa.RSAPrivateKey)
    key.public_key().verify(read.sign(b"text", padding.PKCS1v15(), SHA256()), b"text", padding.PKCS1v15(), SHA256())
    for other in (ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()):
        assert pem(private_key_in(pem(other))) == pem(other)


def test_largest_key_is_read_faster_than_a_check_of_its_primes() -> None:
    text = pem(large_key(MAX_RSA_BITS))
    private_key_in(text)
    started = time.perf_counter()
    private_key_in(text)
    ours_s = time.perf_counter() - started
    small = pem(rsa.generate_private_key(65537, 2048))
    started = time.perf_counter()
    load_pem_private_key(small.encode(), None)
    assert ours_s < time.perf_counter() - started  # although that key is a quarter of the size


def test_larger_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 8192 bits"):
        private_key_in(pem(large_key(MAX_RSA_BITS + 64)))


@pytest.mark.parametrize("part", ["d", "dmp1", "dmq1", "iqmp"])
def test_inconsistent_parts_are_refused(part: str) -> None:
    numbers = rsa.generate_private_key(65537, 1024).private_numbers()
    given = {name: getattr(numbers, name) for name in ("p", "q", "d", "dmp1", "dmq1", "iqmp")}
    bent = rsa.RSAPrivateNumbers(**{**given, part: given[part] + 2}, public_numbers=numbers.public_numbers)
    text = pem(bent.private_key(unsafe_skip_rsa_key_validation=True))
    with pytest.raises(ValueError):  # noqa: PT011 (some by OpenSSL, in its words)
        private_key_in(text)


def test_a_jwk_needs_its_primes_and_they_must_match_the_modulus() -> None:
    jwk = RSAKey.generate_key(2048).as_dict(private=True)
    assert signing_key(json.dumps(jwk), "RS256").as_dict(private=True)["d"] == jwk["d"]
    for wrong in (
        {name: text for name, text in jwk.items() if name != "p"},
        {**jwk, "d": jwk["dp"]},
        {**jwk, "q": jwk["p"]},
        {**jwk, "n": "A" * 2000},
        {**jwk, "n": 5},
        {**jwk, "oth": []},
    ):
        with pytest.raises(BadKey):
            signing_key(json.dumps(wrong), "RS256")
    with pytest.raises(ValueError, match="at most"):
        rsa_key_in({**jwk, "n": "_" * 2000})


class Prime(int):
    """A prime that must not be multiplied: with millions of bits that takes seconds."""

    def __mul__(self, other: int) -> int:
        raise AssertionError


def test_primes_larger_than_the_key_are_refused_before_they_are_multiplied() -> None:
    with pytest.raises(ValueError, match="do not belong together"):
        _check_parts(n=15, e=3, d=11, p=Prime(2**100 + 1), q=Prime(2**100 + 3))

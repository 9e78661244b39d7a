"""Reads private keys in PEM and JWK within a millisecond, whatever their size.
Users provide these keys, so a large key must not delay the requests of other users.

OpenSSL's check of an RSA key tests its primes. This test takes seconds for a large key and blocks the interpreter. So
this module checks only that the numbers of a key fit together, and limits the key's size. A key with numbers that are
not prime is accepted: such a key only makes its own signatures invalid.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPrivateNumbers
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

MAX_RSA_BITS: Final = 8192  # signing with a larger key would block other requests too long


def private_key_in(pem: str) -> "PrivateKeyTypes":
    """Return the private key in `pem`, which must not need a passphrase.

    Raises ValueError, TypeError or UnsupportedAlgorithm, as the cryptography library does.
    """
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pem.encode(), password=None, unsafe_skip_rsa_key_validation=True)
    if isinstance(key, RSAPrivateKey):
        if key.key_size > MAX_RSA_BITS:
            raise ValueError(f"an RSA key may have at most {MAX_RSA_BITS} bits")
        _check_numbers(key.private_numbers())
    return key


def rsa_key_in(jwk: Mapping[str, Any]) -> "RSAPrivateKey":
    """Return the RSA private key in a JWK with its primes (RFC 7518 §6.3.2). Raises ValueError, TypeError or KeyError.

    A JWK without the primes is refused, because computing the primes can take minutes.
    """
    from cryptography.hazmat.primitives.asymmetric import rsa

    n, e, d = (_number(jwk[name]) for name in ("n", "e", "d"))
    if n.bit_length() > MAX_RSA_BITS:
        raise ValueError(f"an RSA key may have at most {MAX_RSA_BITS} bits")
    if "oth" in jwk:
        raise ValueError("a key of more than two primes")
    p, q = _number(jwk["p"]), _number(jwk["q"])
    _check_parts(n, e, d, p, q)
    numbers = rsa.RSAPrivateNumbers(
        p=p,
        q=q,
        d=d,
        dmp1=rsa.rsa_crt_dmp1(d, p),
        dmq1=rsa.rsa_crt_dmq1(d, q),
        iqmp=rsa.rsa_crt_iqmp(p, q),
        public_numbers=rsa.RSAPublicNumbers(e, n),
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def _number(text: Any) -> int:
    if not isinstance(text, str):
        raise TypeError("a member of a key is not text")
    try:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
    except (binascii.Error, UnicodeEncodeError) as fault:
        raise ValueError("a member of a key is not base64url") from fault


def _check_numbers(numbers: "RSAPrivateNumbers") -> None:
    """Raise ValueError if the numbers do not belong to one key."""
    public, p, q, d = numbers.public_numbers, numbers.p, numbers.q, numbers.d
    _check_parts(public.n, public.e, d, p, q)
    if (numbers.dmp1, numbers.dmq1) != (d % (p - 1), d % (q - 1)) or numbers.iqmp * q % p != 1:
        raise ValueError("the parts of this RSA key do not belong together")


def _check_parts(n: int, e: int, d: int, p: int, q: int) -> None:
    """Raise ValueError if the numbers do not satisfy RFC 8017 §3.2.

    The function does not check that the primes are prime.
    """
    are_in_range = min(p, q) > 2 and max(p, q) < n and p % 2 == q % 2 == 1 and p != q and 3 <= e < n and 1 < d < n
    if not are_in_range or p * q != n or e * d % (p - 1) != 1 or e * d % (q - 1) != 1:
        raise ValueError("the parts of this RSA key do not belong together")

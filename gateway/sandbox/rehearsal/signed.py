"""Signatures as the far side checks them: OAuth 1.0 (RFC 5849 §3.2), JWTs (RFC 7515), and AWS's credential scope."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from gateway.sandbox.rehearsal.arrival import Arrival
from gateway.sandbox.rehearsal.checks import Check, Known

_PARAM: Final = re.compile(r'([a-z0-9_]+)="([^"]*)"')
_AWS: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, ?"
    r"SignedHeaders=(?P<fields>[a-z0-9;-]+), ?Signature=[0-9a-f]{64}"
)


def oauth_params(arrival: Arrival) -> dict[str, str]:
    """The protocol parameters in Authorization, decoded."""
    return {name: unquote(value) for name, value in _PARAM.findall(arrival.headers.get("Authorization", ""))}


def oauth1(arrival: Arrival, consumer: tuple[str, str], token: tuple[str, str], method: str) -> Iterator[Check]:
    """Consumer key, token and, for the HMACs and PLAINTEXT, the signature itself."""
    given = oauth_params(arrival)
    place = ("signature_method",)
    yield Check(
        "oauth_consumer_key is the integration's", given.get("oauth_consumer_key") == consumer[0], ("auth_mode",), "no"
    )
    if token[0]:
        yield Check(
            "oauth_token is the connection's", given.get("oauth_token") == token[0], ("auth_mode",), "it is another"
        )
    named = given.get("oauth_signature_method")
    yield Check(f"oauth_signature_method is {method}", named == method, place, f"it was {named}")
    if method != "RSA-SHA1":
        ok = _holds(arrival, given, consumer[1], token[1], method)
        yield Check("the signature holds", ok, place, "it does not")


def _holds(arrival: Arrival, given: dict[str, str], client_secret: str, token_secret: str, method: str) -> bool:
    from oauthlib.oauth1.rfc5849 import signature as rfc5849

    pairs = [(name, value) for name, value in given.items() if name not in {"realm", "oauth_signature"}]
    pairs += parse_qsl(arrival.target.partition("?")[2], keep_blank_values=True)
    if arrival.kind == "application/x-www-form-urlencoded":
        pairs += parse_qsl(arrival.body.decode(), keep_blank_values=True)
    received: Any = SimpleNamespace(
        uri=f"http://{arrival.headers['Host']}{arrival.target}",
        http_method=arrival.method,
        params=pairs,
        signature=given.get("oauth_signature", ""),
    )
    verify = {
        "HMAC-SHA1": rfc5849.verify_hmac_sha1,
        "HMAC-SHA256": rfc5849.verify_hmac_sha256,
        "PLAINTEXT": rfc5849.verify_plaintext,
    }[method]
    return bool(verify(received, client_secret, token_secret))


def aws(arrival: Arrival, known: Known, access_key: str) -> Iterator[Check]:
    """Key, region and service of the credential scope."""
    signing = known.provider.request_signing
    found = _AWS.fullmatch(arrival.headers.get("Authorization", ""))
    yield Check(
        "Authorization is AWS Signature Version 4", found is not None, ("request_signing",), "it has another form"
    )
    if found is None or signing is None:
        return
    yield Check("it names the access key", found["key"] == access_key, ("credentials",), "it names another one")
    for part in ("region", "service"):
        expected = known.text(getattr(signing, part))
        if expected is not None:
            ok = found[part] == expected
            yield Check(f"{part} is {expected}", ok, ("request_signing", part), f"it was {found[part]}")


def jwt(token: str, key: str, known: Known) -> Iterator[Check]:
    """A JWT that the mode signed: its algorithm, its claims, and the signature."""
    from joserfc import jwt as jose
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    spec = known.provider.jwt
    if spec is None:
        return
    algorithm = known.text(spec.header.get("alg", "RS256")) or "RS256"
    kind = (
        "oct"
        if algorithm.startswith("HS")
        else "OKP"
        if algorithm == "EdDSA"
        else "EC"
        if algorithm.startswith("ES")
        else "RSA"
    )
    raw = bytes.fromhex(key) if kind == "oct" and spec.key_encoding == "hex" else key
    if kind == "oct" and spec.key_encoding == "base64":
        import base64

        raw = base64.b64decode(key)
    try:
        held = jose.decode(token, import_key(raw, kind), algorithms=[algorithm])  # type: ignore[call-overload]
    except (JoseError, ValueError) as wrong:
        yield Check(f"the JWT is signed by {algorithm}", False, ("jwt",), f"it is not: {type(wrong).__name__}")
        return
    yield Check(f"the JWT is signed by {algorithm}", True, ("jwt",))
    for name, value in spec.claims.items():
        expected = known.deep(value)
        if expected not in (None, {}, []):
            yield Check(
                f"claim {name}", held.claims.get(name) == expected, ("jwt", "claims", name), "it is another or missing"
            )

"""AWS's own examples: the signature test suite, the IAM example, and the examples of the S3 documentation."""

import hashlib
from datetime import UTC, datetime

import pytest

from gateway.auth.aws_sigv4 import EMPTY_HASH, UNSIGNED, Scope, SigV4Keys, SigV4Signer, authorization, read_credentials
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.provider_call import Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret

SUITE = SigV4Keys("AKIDEXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"))
AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SERVICE = Scope("us-east-1", "service")
HEAD = [("Host", "example.amazonaws.com"), ("X-Amz-Date", "20150830T123600Z")]
FORM = ("Content-Type", "application/x-www-form-urlencoded")
ALPHABET = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def signature(made: str) -> str:
    return made.rpartition("Signature=")[2]


@pytest.mark.parametrize(
    ("method", "target", "fields", "body", "expected"),
    [
        ("GET", "/", HEAD, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "GET", "/?Param2=value2&Param1=value1", HEAD, b"",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "GET", "/?Param1=value2&Param1=Value1", HEAD, b"",
            "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1",
        ),
        ("GET", "//example//", HEAD, b"", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"),
        (
            "GET", f"/?{ALPHABET}={ALPHABET}", HEAD, b"",
            "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
        ),
        ("POST", "/", HEAD, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "POST", "/", [*HEAD, FORM], b"Param1=value1",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ],
)  # fmt: skip
def test_signatures_match_the_aws_test_suite(
    method: str, target: str, fields: list[tuple[str, str]], body: bytes, expected: str
) -> None:
    payload = hashlib.sha256(body).hexdigest()
    assert signature(authorization(SUITE, SERVICE, method, target, fields, payload, AT)) == expected


def test_signature_matches_the_list_users_example_of_the_aws_reference() -> None:
    fields = [
        ("Host", "iam.amazonaws.com"),
        ("X-Amz-Date", "20150830T123600Z"),
        ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),
    ]
    target = "/?Action=ListUsers&Version=2010-05-08"
    assert authorization(SUITE, Scope("us-east-1", "iam"), "GET", target, fields, EMPTY_HASH, AT) == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


S3_KEYS = SigV4Keys("AKIAIOSFODNN7EXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
S3_HEAD = [("Host", "examplebucket.s3.amazonaws.com"), ("x-amz-date", "20130524T000000Z")]
WELCOME = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()


@pytest.mark.parametrize(
    ("method", "target", "extra", "payload", "expected"),
    [
        (
            "GET", "/test.txt", [("Range", "bytes=0-9")], EMPTY_HASH,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test$file.text",
            [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")], WELCOME,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        ("GET", "/?lifecycle", [], EMPTY_HASH, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "GET", "/?max-keys=2&prefix=J", [], EMPTY_HASH,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_signatures_match_the_examples_of_the_s3_documentation(
    method: str, target: str, extra: list[tuple[str, str]], payload: str, expected: str
) -> None:
    fields = [*S3_HEAD, *extra, ("x-amz-content-sha256", payload)]
    at = datetime(2013, 5, 24, tzinfo=UTC)
    header = authorization(S3_KEYS, Scope("us-east-1", "s3"), method, target, fields, payload, at)
    assert signature(header) == expected


def upload(scheme: str, service: str, **headers: str) -> tuple[SigV4Signer, UpstreamRequest]:
    request = UpstreamRequest("PUT", scheme, "far.example.com", 443 if scheme == "https" else 80, "/key")
    request.headers.update(headers)
    return SigV4Signer(S3_KEYS, Scope("eu-west-1", service)), request


def test_a_body_streams_unsigned_to_s3_over_https_and_to_nothing_else() -> None:
    for scheme, service, streams in (("https", "s3", True), ("http", "s3", False), ("https", "sqs", False)):
        signer, request = upload(scheme, service)
        assert signer.wants_body(request) is not streams
    signer, request = upload("https", "s3")
    signer.sign(request, None)
    assert request.headers["X-Amz-Content-Sha256"] == UNSIGNED


def test_a_caller_who_knows_the_hash_streams_to_any_service() -> None:
    known = hashlib.sha256(b"body").hexdigest()
    streamed, buffered = upload("https", "sqs", **{"x-amz-content-sha256": known}), upload("https", "sqs")
    assert not streamed[0].wants_body(streamed[1])
    streamed[0].sign(streamed[1], None)
    buffered[0].sign(buffered[1], b"body")
    assert "x-amz-content-sha256" in streamed[1].headers["Authorization"]
    assert "x-amz-content-sha256" not in buffered[1].headers["Authorization"]


def test_signing_twice_writes_each_field_once() -> None:
    signer, request = upload("https", "s3")
    signer.sign(request, b"")
    signer.sign(request, b"")
    assert len(request.headers.getall("Authorization")) == len(request.headers.getall("X-Amz-Date")) == 1
    assert request.headers["X-Amz-Content-Sha256"] == EMPTY_HASH


def test_a_header_field_that_is_not_utf_8_is_signed_as_it_is_sent() -> None:
    signer, request = upload("https", "s3", **{"x-amz-meta-name": b"caf\xe9".decode("utf-8", "surrogateescape")})
    signer.sign(request, None)
    assert ";x-amz-meta-name," in request.headers["Authorization"]


def sts_error(status: int, code: str) -> Reply:
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>Rate exceeded</Message></Error></ErrorResponse>"
    return Reply(status, {}, body.encode(), AT)


def test_a_throttled_role_request_is_temporary_and_a_denied_one_is_a_refusal() -> None:
    with pytest.raises(TokenUnavailable, match="STS returned 400: Throttling: Rate exceeded"):
        read_credentials(sts_error(400, "Throttling"))
    with pytest.raises(TokenUnavailable, match="STS returned 503: ServiceUnavailable"):
        read_credentials(sts_error(503, "ServiceUnavailable"))
    with pytest.raises(TokenUnavailable, match="STS returned 302"):
        read_credentials(sts_error(302, "Found"))
    with pytest.raises(TokenRefused, match="STS returned 403: AccessDenied"):
        read_credentials(sts_error(403, "AccessDenied"))

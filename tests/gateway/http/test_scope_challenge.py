"""The scopes that a 403 requires, as RFC 6750 §3.1 defines the challenge, and as real servers send it."""

import pytest

from gateway.http.scope_challenge import MAX_SCOPES, challenges_in, refused_scopes


@pytest.mark.parametrize(
    ("value", "scopes"),
    [
        ('Bearer realm="example", error="insufficient_scope", scope="read write"', ("read", "write")),
        ('Bearer realm="x",error=insufficient_scope,scope=read', ("read",)),
        ('bearer Scope="read", ERROR="insufficient_scope"', ("read",)),
        ('Bearer error="insufficient_scope"', ()),
        (
            'Basic realm="a, b=c", Bearer error="insufficient_scope", scope="https://x/auth/a.b"',
            ("https://x/auth/a.b",),
        ),
        ('DPoP error="insufficient_scope", scope="a a b", algs="ES256"', ("a", "b")),
        (r'Bearer error_description="say \"scope=no\"", error="insufficient_scope", scope="yes"', ("yes",)),
        ('Bearer error="insufficient_scope", scope="a\x80 b\\\\ c"', ("c",)),
        (f'Bearer error="insufficient_scope", scope="{"x" * 300} c"', ("c",)),
    ],
)
def test_scopes_are_read_from_the_challenge(value: str, scopes: tuple[str, ...]) -> None:
    assert refused_scopes(403, [("Date", "x"), ("WWW-Authenticate", value)]) == scopes


@pytest.mark.parametrize(
    "value",
    [
        'Bearer error="invalid_token", scope="read"',
        'Bearer scope="read"',
        'Basic error="insufficient_scope", scope="read"',
        'Bearer realm="error=insufficient_scope"',
        'error="insufficient_scope", scope="read"',
        "",
        "=,=,",
    ],
)
def test_other_challenges_name_no_scopes(value: str) -> None:
    assert refused_scopes(403, [("www-authenticate", value)]) is None


def test_the_challenges_of_several_fields_are_read_in_their_order() -> None:
    fields = [
        ("WWW-Authenticate", 'Negotiate, Basic realm="x"'),
        ("Date", "Bearer a=1"),
        ("www-authenticate", 'Bearer Scope=read, b = "say \\"b=2\\"", b=3'),
    ]
    assert list(challenges_in(fields)) == [
        ("negotiate", {}),
        ("basic", {"realm": "x"}),
        ("bearer", {"scope": "read", "b": 'say "b=2"'}),
    ]


def test_only_a_403_with_a_challenge_names_scopes() -> None:
    fields = [("WWW-Authenticate", 'Bearer error="insufficient_scope", scope="read"')]
    assert refused_scopes(401, fields) is None
    assert refused_scopes(403, []) is None


def test_the_number_of_scopes_is_bounded() -> None:
    many = " ".join(f"s{number}" for number in range(MAX_SCOPES * 3))
    found = refused_scopes(403, [("WWW-Authenticate", f'Bearer error="insufficient_scope", scope="{many}"')])
    assert found is not None
    assert len(found) == MAX_SCOPES

"""Log lines show no credential from other libraries' messages or from exceptions; masking takes linear time."""

from collections.abc import Callable

import pytest

from gateway.observe.masking import masked_text
from tests.fakes.scaling import linear_fault

SECRETS = ("s3cr3t", "an0ther", "cGFzcw==")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer s3cr3t", "Authorization: ***"),
        ("authorization:Basic cGFzcw==\r\nHost: h", "authorization:***\r\nHost: h"),
        ("Proxy-Authorization: Digest username=s3cr3t, an0ther", "Proxy-Authorization: ***"),
        (
            'Authorization: Digest username="u", response="s3cr3t", nonce="an0ther"\r\nHost: h',
            "Authorization: ***\r\nHost: h",
        ),
        ("{'Authorization': 'Bearer s3cr3t', 'Host': 'h'}", "{'Authorization': '***', 'Host': 'h'}"),
        ("[(b'authorization', b'Bearer s3cr3t'), (b'host', b'h')]", "[(b'authorization', b'***'), (b'host', b'h')]"),
        ("sent Bearer s3cr3t to h", "sent Bearer *** to h"),
        ("sent basic cGFzcw==, refused", "sent basic ***, refused"),
        ("token s3cr3t is dead", "token *** is dead"),
        ("the token endpoint: http://h could not be reached", "the token endpoint: http://h could not be reached"),
        ("token endpoint-s3cr3t", "token ***"),
        ("no token (invalid_client: The secret ended)", "no token (invalid_client: The secret ended)"),
        ("the token has expired", "the token has expired"),
        ("for a token, which was refused", "for a token, which was refused"),
        ("its token was: refused", "its token was: refused"),
        ("token (s3cr3t)", "token ***"),
        ("token is.s3cr3t", "token ***"),
        ("token hunter", "token ***"),
        ("token Expired-s3cr3t", "token ***"),
        ("Bearer is", "Bearer ***"),
        ("Cookie: a=s3cr3t; b=an0ther\nHost: h", "Cookie: ***\nHost: h"),
        ("Set-Cookie: sid=s3cr3t; Path=/; HttpOnly", "Set-Cookie: ***"),
        ('{"cookie": "a=s3cr3t; b=an0ther", "n": 1}', '{"cookie": "***", "n": 1}'),
        ("<CIMultiDict('X-Api-Key': 's3cr3t', 'Accept': '*/*')>", "<CIMultiDict('X-Api-Key': '***', 'Accept': '*/*')>"),
        ("x-api-key: s3cr3t", "x-api-key: ***"),
        ("X-Goog-Api-Key=s3cr3t&n=1", "X-Goog-Api-Key=***&n=1"),
        ("Ocp-Apim-Subscription-Key: s3cr3t", "Ocp-Apim-Subscription-Key: ***"),
        ("x-functions-key : s3cr3t", "x-functions-key : ***"),
        ("X-Auth-Token: s3cr3t", "X-Auth-Token: ***"),
        ("apikey=s3cr3t", "apikey=***"),
        ("private_key='s3cr3t an0ther'", "private_key='***'"),
        ("client_secret=s3cr3t&refresh_token=an0ther&n=1", "client_secret=***&refresh_token=***&n=1"),
        ('{"access_token": "s3cr3t", "expires_in": 3600}', '{"access_token": "***", "expires_in": 3600}'),
        ("password: s3cr3t", "password: ***"),
        ("user=u;pwd=s3cr3t", "user=u;pwd=***"),
        ("https://u:s3cr3t@h/p?q=an0ther", "https://***@h/p?***"),
        ("https://s3cr3t@h", "https://***@h"),
        ("https://u:s3c@s3cr3t@h:8443/p", "https://***@h:8443/p"),
        ("postgresql+asyncpg://gw:s3cr3t@db/x?sslmode=an0ther", "postgresql+asyncpg://***@db/x?***"),
        ("GET http://h/cb?code=s3cr3t#t=an0ther failed", "GET http://h/cb?*** failed"),
        ("http://h/#access_token=s3cr3t", "http://h/#***"),
        ("https://a.example/https://u:s3cr3t@h/?q=an0ther", "https://a.example/https://***@h/?***"),
        ("https://h/?to=https://u:s3cr3t@x/y&token=an0ther", "https://h/?***"),
        ("https://h/path of nothing secret", "https://h/path of nothing secret"),
        ("provider_config_key='jira'", "provider_config_key='jira'"),
        ("the error_type=x, status 200, retry in 5 s", "the error_type=x, status 200, retry in 5 s"),
    ],
)
def test_credential_in_messages_of_other_libraries_is_masked(text: str, expected: str) -> None:
    assert masked_text(text) == expected
    assert not any(secret in masked_text(text) for secret in SECRETS)


@pytest.mark.parametrize(
    "piece",
    [
        *("a", "a-", "token", "token ", "token=", "secret'", "https://", "https:/", "://", "://a", "@", "http://a@"),
        *("http://a?", "authorization", "authorization ", "authorization:", "authorization:'", "bearer ", "bearer"),
        *("cookie:\n", "'", "\\", "x-api-key'", "x-api-key: '\\", " ", "api_key", "-key", 'password: "a', "token\t"),
        *("a:", "=", "basic  ", "token is", "token (", "token (a_", "(aa_", "token is."),
    ],
)
def test_masking_costs_time_in_proportion_to_the_text(piece: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = piece * (size // len(piece))
        return lambda: masked_text(text)

    assert linear_fault(work, 1 << 16) == ""

"""Mistakes in copying a client id and secret are recognized by their format."""

from gateway.integrations.client_mistakes import client_mistakes
from gateway.records.integration import Integration
from gateway.secret import Secret


def test_mistakes_in_copying_a_client_are_recognized_by_format() -> None:
    def mistakes_in(client_id: str | None, client_secret: str | None = None) -> list[str]:
        secret = None if client_secret is None else Secret(client_secret)
        integration = Integration(
            environment="dev", integration_id="x", provider="jira", client_id=client_id, client_secret=secret
        )
        return [f"{key} {trouble}" for key, trouble in client_mistakes(integration)]

    assert mistakes_in("abc-1", "s3cr3t-value") == []
    assert mistakes_in("'abc'", "•••• 1234") == [
        "client_id has quotes around it",
        "client_secret contains a space or a line break",
    ]
    assert mistakes_in("same", "same") == ["client_secret is the same as client_id"]
    assert mistakes_in(None) == []

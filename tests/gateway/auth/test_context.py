"""The context of an auth mode: an unusable value is the caller's error, and names what is wrong."""

import pytest

from gateway.auth.context import AuthContext
from gateway.catalog.render import Moment
from gateway.errors import InvalidRequest
from gateway.records.integration import Integration
from gateway.secret import Secret
from tests.fakes.providers import provider


def test_a_value_that_a_template_of_a_body_cannot_use_is_an_invalid_request() -> None:
    context = AuthContext(provider(), Integration(environment="dev", integration_id="t", provider="tracker"))
    key = {"credentials.privateKey": Secret("not a key")}
    with pytest.raises(InvalidRequest, match="A value in the request's body must be a private key in PEM"):
        context.json({"proof": "${ed25519Sign(hello, ${credentials.privateKey})}"}, key, Moment())

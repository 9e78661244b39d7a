"""The gateway's API parses bodies and queries strictly, and reports every fault with its own messages."""

from typing import Any

import pytest
from aiohttp import BytesPayload

from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

PYDANTIC = ("Value error", "instance of", "Extra inputs", "Input should", "valid string", "Field required")


def as_json(raw: bytes) -> BytesPayload:
    return BytesPayload(raw, content_type="application/json")


async def refusal(running: RunningGateway, path: str, **sent: Any) -> dict[str, Any]:
    body = await running.json("POST", path, expect=400, **sent)
    error: dict[str, Any] = body["error"]
    assert not [words for words in PYDANTIC if words in str(error)]
    return error


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ('{"a": NaN}', "The body contains NaN, which is not JSON."),
        ('{"a": [-Infinity]}', "The body contains -Infinity, which is not JSON."),
        ('{"a": 1e400}', "The body contains a number that is too large."),
        ('{"a": 1, "a": 2}', "The body has the duplicate key 'a' in one object."),
        (r'{"a": "\ud800"}', "The body contains half a surrogate pair"),
        (r'{"\udc00": 1}', "The body contains half a surrogate pair"),
        ('{"a": ' + "9" * 5000 + "}", "The body contains a whole number of too many digits."),
        ('{"a": ' + "[" * 100_000, "The body is nested too deep."),
        ('{"a": }', "The body is not JSON (line 1, column "),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_body_that_cannot_be_stored_is_refused(
    shared_gateway: RunningGateway, shared_tracker: Tracker, metadata: str, says: str
) -> None:
    await shared_gateway.import_connection(shared_tracker.grant())
    body = '{"provider_config_key": "tracker", "connection_id": "c2", "credentials": {}, "metadata": ' + metadata + "}"
    error = await refusal(shared_gateway, "/connections", data=as_json(body.encode()))
    assert error["code"] == "invalid_json"
    assert error["message"].startswith(says)
    assert len((await shared_gateway.json("GET", "/connections"))["connections"]) == 1


async def test_bytes_that_are_not_utf_8_are_refused(running: RunningGateway) -> None:
    error = await refusal(running, "/connections", data=as_json(b'{"a": "\xff"}'))
    assert (error["code"], error["message"]) == ("invalid_json", "The body is not UTF-8 (byte 8).")


@pytest.mark.parametrize("body", [b"", b" \n"])
async def test_error_for_an_empty_body_says_that_it_is_empty(running: RunningGateway, body: bytes) -> None:
    error = await refusal(running, "/connections", data=as_json(body))
    assert (error["code"], error["message"]) == ("invalid_json", "The body is empty; send a JSON object.")


async def test_complete_surrogate_pair_is_one_character(running: RunningGateway, tracker: Tracker) -> None:
    response = await running.import_connection(tracker.grant(), metadata={"a": "\U0001f600"})
    assert response["metadata"] == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "The body must be a JSON object."),
        ({"tags": {}, "surprise": 1}, "'surprise' is not a field here; GET /docs lists the fields."),
        ({"tags": []}, "tags must be an object."),
        ({"tags": {"1x": "y"}}, "tags: tag '1x' must begin with a letter and hold letters, digits and _ - . / only."),
        ({}, "end_user is missing; send it, or tags that identify the owner of the connection."),
        ({"end_user": {"id": 5}}, "end_user.id must be text."),
        ({"end_user": {}, "a": 1}, "end_user.id is missing; 'a' is not a field here; GET /docs lists the fields."),
        (
            {"tags": {}, **dict.fromkeys("abcde", 1)},
            "'a' is not a field here; GET /docs lists the fields; 'b' is not a field here; 'c' is not a field here; and 2 more.",
        ),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_error_message_lists_the_faults(shared_gateway: RunningGateway, body: Any, message: str) -> None:
    error = await refusal(shared_gateway, "/connect/sessions", json=body)
    assert (error["code"], error["message"]) == ("invalid_body", message)


async def test_an_unknown_query_name_is_reported_together_with_bad_values(running: RunningGateway) -> None:
    body = await running.json("GET", "/connections?limit=0&page=x&surprise=1", expect=400)
    assert [issue["path"] for issue in body["error"]["errors"]] == [["limit"], ["page"], ["surprise"]]
    assert body["error"]["message"] == (
        "'limit' must be a whole number from 1 to 2000; 'page' must be a whole number from 0 to 1000000000; "
        "'surprise' is not a parameter of this endpoint; the parameters are connectionId, search, endUserId, "
        "endUserOrganizationId, integrationId, limit, page, cursor, missingScopes, tags."
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tags": {}, "alowed_integrations": []}, "; did you mean 'allowed_integrations'?"),
        ({"tags": {}, "alowed_integrations": [], "overides": {}}, "; 'overides' is not a field here."),
        ({"end_user": {"id": "u1", "emial": "a@b.c"}}, "'emial' is not a field here; did you mean 'email'?"),
        ({"tags": {}, "a" * 65: 1}, f"'{'a' * 64}' is not a field here; GET /docs lists the fields."),
        (
            {"end_user": {"id": "u1", "phone": "1"}},
            "'phone' is not a field here; the fields are id, email, display_name, tags.",
        ),
        ({"end_user": {"id": "u1"}, "expires_in": "2h"}, "expires_in must be a whole number of seconds."),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_first_unknown_field_is_reported_with_the_nearest(
    shared_gateway: RunningGateway, body: Any, message: str
) -> None:
    error = await refusal(shared_gateway, "/connect/sessions", json=body)
    assert error["message"].endswith(message)


@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_field_of_an_import_is_reported_with_the_nearest(shared_gateway: RunningGateway) -> None:
    error = await refusal(shared_gateway, "/connections", json={"provider_config_key": "tracker", "conection_id": "c1"})
    assert "'conection_id' is not a field here; did you mean 'connection_id'?" in str(error["errors"])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("end_user_id=u1", "'end_user_id' is not a parameter of this endpoint; did you mean 'endUserId'?"),
        ("tag=x", "'tag' is not a parameter of this endpoint; did you mean 'tags'?"),
        ("tags=x", "'tags' needs a key, as in tags[<key>]=<value>."),
        ("serach=u1&limmit=1", "did you mean 'search'?; 'limmit' is not a parameter of this endpoint."),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_first_unknown_parameter_is_reported_with_the_nearest(
    shared_gateway: RunningGateway, query: str, message: str
) -> None:
    error = (await shared_gateway.json("GET", f"/connections?{query}", expect=400))["error"]
    assert error["message"].endswith(message)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/connect/sessions", {"tags": {"a": "b"}, "allowed_integrations": ["x"] * 1001}, "allowed_integrations"),
        ("/connections/metadata", {"connection_id": ["x"] * 1001, "provider_config_key": "x", "metadata": {}}, "connection_id"),
        ("/environment/api-keys", {"display_name": "x", "limits": {"rules": ["GET /x"] * 201}}, "limits.rules"),
    ],
)  # fmt: skip
@pytest.mark.asyncio(loop_scope="module")
async def test_a_list_has_a_limited_number_of_items(
    shared_gateway: RunningGateway, path: str, body: dict[str, Any], field: str
) -> None:
    response = await shared_gateway.json("POST", path, json=body, expect=400)
    assert [error["message"] for error in response["error"]["errors"] if "items" in error["message"]] != []
    assert field in response["error"]["errors"][0]["message"]

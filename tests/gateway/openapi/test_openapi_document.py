"""The OpenAPI document describes exactly the existing routes."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from multidict import CIMultiDict

from gateway import clock
from gateway.app.routes import ROUTES
from gateway.auth import modes
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Proxy
from gateway.errors import Code, InvalidRequest
from gateway.http.proxy_options import OWN_HEADERS
from gateway.openapi.codes import STATUS_BY_CODE
from gateway.openapi.import_models import IMPORTED
from gateway.openapi.openapi_document import ALL_METHODS, components, document, status_codes
from gateway.openapi.operations import OPERATIONS, PROXY_HEADERS
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"\| (\d{3}) \| `(\w+)` \|")


def path_without_patterns(path: str) -> str:
    """Return the route's pattern without the expressions that its parameters must match."""
    return re.sub(r"\{(\w+):(?:[^{}]|\{[^}]*\})*\}", r"{\1}", path)


EXISTING = {(method, path_without_patterns(path)) for method, path, _ in ROUTES if method != "OPTIONS"}
DESCRIBED = {(operation.method, operation.path) for operation in OPERATIONS}


def test_every_route_is_described() -> None:
    missing = sorted(EXISTING - DESCRIBED)
    advice = 'gateway/openapi/operations.py needs a line for each: Endpoint("GET", "/path", "What it does", GROUP, …)'
    assert missing == [], f"routes without a description: {missing}; {advice}"


def test_every_operation_has_its_route() -> None:
    routeless = sorted(DESCRIBED - EXISTING)
    assert routeless == [], (
        f"described in gateway/openapi/operations.py, but gateway/app/routes.py has no such route: {routeless}"
    )


def test_no_operation_is_described_twice_and_every_id_is_unique() -> None:
    described = document("https://gateway.example")
    ids = [item["operationId"] for path in described["paths"].values() for item in path.values()]
    assert (
        len(ids) == len(set(ids)) == sum(len(ALL_METHODS) if operation.method == "*" else 1 for operation in OPERATIONS)
    )


def test_every_reference_names_an_existing_component() -> None:
    described = document("https://gateway.example")
    found = set(re.findall(r"'#/components/(\w+)/(\w+)'", str(described)))
    assert found
    assert [item for item in found if item[1] not in described["components"][item[0]]] == []


def test_statuses_are_those_of_the_page_on_errors() -> None:
    page = {code: int(status) for status, code in ROW.findall((DOCS / "http-api.md").read_text())}
    result: dict[str, int] = {**STATUS_BY_CODE}
    assert result == page
    assert set(get_args(Code)) == set(result)


def test_every_code_is_reported_at_some_operation() -> None:
    # Codes of browser pages, of trailers, and of the health check: no JSON error has them.
    elsewhere = {
        "authorization_refused",
        "connect_session_in_use",
        "invalid_issuer",
        "invalid_nonce",
        "invalid_state",
        "next_page_refused",
        "not_confirmed",
        "not_ready",
        "page_failed",
        "token_request_failed",
    }
    result = {code for operation in OPERATIONS for codes in status_codes(operation).values() for code in codes}
    assert set(get_args(Code)) - result == elsewhere


async def test_openapi_document_is_public_and_has_an_entity_tag(running: RunningGateway) -> None:
    async with running.http.get(f"{running.url}/openapi.json", headers={"Origin": "https://x.example"}) as response:
        assert response.status == 200
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        body, tag = await response.json(), response.headers["ETag"]
    assert body["openapi"] == "3.1.0"
    assert body["servers"] == [{"url": running.url}]
    assert "s3cret" not in str(body)
    assert running.document["environments"]["dev"]["integrations"]["tracker"]["client_secret"] not in str(body)
    async with running.http.get(f"{running.url}/openapi.json", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_first_request_lets_other_tasks_run_after_each_model(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    components.cache_clear()
    turns = 0

    async def give_way() -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(clock, "give_way", give_way)
    for _ in range(2):
        async with running.http.get(running.url + path) as response:
            assert response.status == 200
        assert turns > len(IMPORTED) + len({operation.response for operation in OPERATIONS})


async def test_the_page_loads_nothing_from_other_origins(running: RunningGateway) -> None:
    async with running.http.get(f"{running.url}/docs") as response:
        text = await response.text()
        policy = response.headers["Content-Security-Policy"]
    assert response.status == 200
    nonce = re.search(r"style-src 'nonce-([^']+)'", policy)
    assert nonce is not None
    assert f'nonce="{nonce[1]}"' in text
    # Two scripts and an icon of the gateway; the page contains no other URL that a browser would load.
    text = text.replace('<link rel="icon" href="connect/assets/icon.svg">', "", 1)
    text = text.replace(f'<script nonce="{nonce[1]}">', "", 2)
    assert f"script-src 'nonce-{nonce[1]}'" in policy
    assert not re.search(r"<script|<link|<img|src=|@import|url\(| style=| on\w+=", text)
    async with running.http.get(f"{running.url}/connect/assets/icon.svg") as response:
        assert (response.status, response.content_type) == (200, "image/svg+xml")
    assert "prefers-color-scheme: dark" in text
    for operation in OPERATIONS:
        assert (f'id="{operation.id}"' in text) != operation.internal, operation.id
    linked = set(re.findall(r'href="#(\w+)"', text))
    assert linked <= set(re.findall(r'id="(\w+)"', text))
    assert text.count("curl") > len(OPERATIONS)


FILLED = {
    "{provider}": "tracker",
    "{unique_key}": "tracker",
    "{connection_id}": "c1",
    "{integration_id}": "tracker",
    "{path}": "x",
    "{key_id}": "1",
    "{session_id}": "ab",
}
KEYED = [item for item in OPERATIONS if item.authentication == "key" and item.method != "*"]


def example(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return str(schema["enum"][0])
    if schema.get("type") == "array":
        return example(schema["items"])
    return "1" if schema.get("type") == "integer" else "x"


async def test_routes_accept_exactly_the_described_parameters(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    for item in KEYED:
        path = item.path
        for name, text in FILLED.items():
            path = path.replace(name, text)
        result = {("tags[a]" if item.style else item.name): example(dict(item.schema)) for item in item.query}
        for params in (result, {"bogus": "1"}):
            async with running.http.request(
                item.method, running.url + path, params=params, headers=running.headers, json={}
            ) as response:
                responded = await response.json()
            issues = responded.get("error", {}).get("errors", ()) if isinstance(responded, dict) else ()
            unknown = {issue["path"][0] for issue in issues if issue["code"] == "unrecognized_keys"}
            assert unknown & {"bogus", *result} == params.keys() & {"bogus"}, (item.method, item.path)


async def test_every_header_of_the_gateway_is_described_and_read(running: RunningGateway, tracker: Tracker) -> None:
    assert {item.name for item in PROXY_HEADERS if item.name.startswith("Gateway-")} == set(OWN_HEADERS)
    await running.import_connection(tracker.grant())
    for name in OWN_HEADERS:
        headers = CIMultiDict({**running.headers, "Provider-Config-Key": "tracker", "Connection-Id": "c1"})
        headers.extend([(name, "100"), (name, "100")])  # only a header that is read is refused if it is sent twice
        async with running.http.get(f"{running.url}/proxy/x", headers=headers) as response:
            body = await response.json()
        assert response.status == 400, name
        assert [issue["path"] for issue in body["error"]["errors"]] == [[name.lower()]]


@pytest.mark.parametrize("path", ["/integrations", "/connections", "/connect/sessions", "/connections/metadata"])
@pytest.mark.asyncio(loop_scope="module")
async def test_wrong_json_or_content_type_is_refused(shared_gateway: RunningGateway, path: str) -> None:
    for body in ("[]", "1", '"x"', "null", "{}"):
        headers = {**shared_gateway.headers, "Content-Type": "application/json"}
        async with shared_gateway.http.post(shared_gateway.url + path, data=body, headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_body"), body
    for kind, status, code in (("text/plain", 415, "invalid_content_type"), ("application/json", 400, "invalid_json")):
        headers = {**shared_gateway.headers, "Content-Type": kind}
        async with shared_gateway.http.post(shared_gateway.url + path, data="{", headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (status, code)


def test_every_auth_mode_has_one_model_of_its_import() -> None:
    result = [mode for model in IMPORTED for mode in get_args(model.model_fields["type"].annotation)]
    assert sorted(result) == sorted(modes())


def members_unknown_to(mode: str, body: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the members of `body` that the auth mode does not read."""
    entry = Provider.model_construct(name="p", display_name="P", auth_mode=mode, proxy=Proxy.model_construct())
    try:
        modes()[mode].accept({"type": modes()[mode].types()[0], **body}, entry, datetime(2026, 1, 1, tzinfo=UTC))
    except InvalidRequest as fault:
        return [error.path for error in fault.errors if error.code == "unrecognized_keys"]
    return []


def test_described_members_of_a_credential_are_those_that_are_read() -> None:
    assert members_unknown_to("API_KEY", {"apiKey": "k", "bogus": "1"}) == [("credentials", "bogus")]
    for model in IMPORTED:
        result = {member: "1" for member in model.model_fields if member not in {"type", "config_override"}}
        for mode in get_args(model.model_fields["type"].annotation):
            assert members_unknown_to(mode, result) == [], mode

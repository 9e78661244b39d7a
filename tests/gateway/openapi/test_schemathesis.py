"""Valid and invalid requests get the responses that the OpenAPI document describes, and never a 5xx.

`make fuzz` sends many more requests (EXAMPLES).
"""

import asyncio
import os
import threading
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gateway.openapi.openapi_document import document, status_codes
from gateway.openapi.operations import OPERATIONS
from tests.fakes.gateways import RunningGateway, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

LONG = "EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("EXAMPLES", "6"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# These responses come from the provider or redirect a browser; other tests cover them.
ELSEWHERE = ("/proxy", "/c/", "/oauth/", "/app-auth/", "/connect", "/console")
TRIED = [
    one
    for one in OPERATIONS
    if (not one.path.startswith(ELSEWHERE) or one.path == "/connect/sessions") and (LONG or not one.deprecated)
]
# An operation without input cannot get invalid input.
CASES = [(one, mode) for one in TRIED for mode in GenerationMode if mode.is_positive or one.body or one.query]
# Existing ids, so that not every call ends with 404.
KNOWN = {
    "connection_id": ["c1", "c 2/x"],
    "unique_key": ["tracker", "made"],
    "integration_id": ["tracker", "keyed"],
    "provider": ["tracker", "jira"],
    "name": ["jira"],
    "provider_config_key": ["tracker", "made", "keyed"],
    "Provider-Config-Key": ["tracker"],
}


class GatewayThread:
    """A gateway and its provider on a loop in another thread, since schemathesis makes blocking calls."""

    def __init__(self, folder: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.gateway = self.run(self._begin(folder))

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _begin(self, folder: Any) -> RunningGateway:
        self._tracker = Tracker()
        self._server = await self._tracker.serve()
        self._tracker.url = url = f"http://127.0.0.1:{self._server.port}"
        write_entry(folder, "tracker", tracker_entry(url))
        keyed = {"display_name": "K", "docs": "https://d.example", "categories": ["x"], "auth_mode": "API_KEY"}
        write_entry(folder, "keyed", {**keyed, "proxy": {"base_url": url}})
        from tests.fakes.gateways import document as configuration

        variables = {"A": "1"}
        result = configuration([f"127.0.0.1/32:{self._server.port}"], keyed={"provider": "keyed"})
        result["environments"]["dev"]["variables"] = variables
        gateway = RunningGateway(folder, result)
        await gateway.start()
        for name in KNOWN["connection_id"]:
            await gateway.import_connection(self._tracker.grant(), name, end_user={"id": "u"}, tags={"a": "b"})
        return gateway

    def end(self) -> None:
        self.run(self.gateway.stop())
        self.run(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def gateway_thread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    thread = GatewayThread(tmp_path_factory.mktemp("gateway"))
    yield thread
    thread.end()


@pytest.fixture(scope="module")
def schema(gateway_thread: GatewayThread) -> Any:
    described = deepcopy(document(gateway_thread.gateway.url))
    for path in described["paths"].values():
        for operation in path.values():
            for parameter in operation["parameters"]:
                if parameter["name"] in KNOWN:
                    parameter["schema"] = {"anyOf": [{"enum": KNOWN[parameter["name"]]}, parameter["schema"]]}
    return schemathesis.openapi.from_dict(described)


@pytest.mark.parametrize(
    ("item", "mode"), CASES, ids=[f"{item.method} {item.path} {mode.value}" for item, mode in CASES]
)
def test_every_response_matches_its_schema(
    gateway_thread: GatewayThread, schema: Any, item: Any, mode: GenerationMode
) -> None:
    operation = schema[item.path][item.method]
    calls = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=not LONG,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def call_case(case: Case) -> None:
        nonlocal calls
        calls += 1
        headers = gateway_thread.gateway.headers if item.authentication == "key" else {}
        response = case.call_and_validate(
            base_url=gateway_thread.gateway.url, headers=headers, checks=CHECKS, timeout=PATIENCE_S
        )
        code = response.headers.get("gateway-error", [None])[0]
        assert code is None or code in status_codes(item)[response.status_code]

    call_case()
    assert calls

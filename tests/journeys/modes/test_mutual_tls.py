"""Mutual TLS: provider and gateway verify each other's certificates (RFC 8705)."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.egress import client as egress_client
from tests.fakes.certificate import Identity, issue_identity
from tests.journeys.modes.conftest import FakeProvider, import_connection


@pytest.fixture
async def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Identity, list[Any]]]:
    """Yield a TLS provider that accepts only certificates of its own authority.

    The values are its URL, an identity that it accepts, and the received requests.
    """
    authority, issuer = issue_identity("authority")
    server, _ = issue_identity("localhost", issuer, "localhost")
    client, _ = issue_identity("customer", issuer)
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / "server.pem").write_text(server.certificate + server.key)
    (folder / "ca.pem").write_text(authority.certificate)
    listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    listening.verify_mode = ssl.CERT_REQUIRED
    listening.load_cert_chain(folder / "server.pem")
    seen: list[Any] = []

    async def response(request: web.Request) -> web.Response:
        assert request.transport is not None
        common_name = dict(pair[0] for pair in request.transport.get_extra_info("peercert")["subject"])["commonName"]
        seen.append((request.path, common_name))
        if request.path == "/token":
            return web.json_response({"access_token": "bank-1", "expires_in": 3600})
        return web.json_response(
            {"who": common_name}, status=200 if request.headers["Authorization"] == "Bearer bank-1" else 401
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", response)
    running = TestServer(app, scheme="https", host="localhost")
    await running.start_server(ssl=listening)

    real = egress_client.Egress.__init__

    def init_with_test_ca(self: Any, *args: Any, **extra: Any) -> None:
        real(self, *args, **{**extra, "tls": ssl.create_default_context(cafile=str(folder / "ca.pem"))})

    monkeypatch.setattr(egress_client.Egress, "__init__", init_with_test_ca)
    yield f"https://localhost:{running.port}", client, seen
    await running.close()


async def gateway_of(fake_provider: FakeProvider, start: Any, url: str, **extra: Any) -> Any:
    fake_provider.url = url  # the fixture's gateway allows the port in `fake_provider.url` on loopback
    return await start(
        auth_mode="OAUTH2_CC",
        token_url=f"{url}/token",
        require_client_certificate=True,
        proxy={"base_url": f"{url}/api"},
        **extra,
    )


async def test_token_requests_and_calls_present_the_connections_certificate(
    fake_provider: FakeProvider, start: Any, bank: Any
) -> None:
    url, identity, seen = bank
    gateway = await gateway_of(fake_provider, start, url)
    credentials = {"type": "OAUTH2_CC", "client_id": "c", "client_certificate": identity.certificate}
    await import_connection(gateway, credentials={**credentials, "client_private_key": identity.key})
    async with gateway.call_proxy("c1") as response:
        assert (response.status, await response.json()) == (200, {"who": "customer"})
    assert seen == [("/token", "customer"), ("/api/x", "customer")]


async def test_without_a_certificate_no_request_is_sent(fake_provider: FakeProvider, start: Any, bank: Any) -> None:
    gateway = await gateway_of(fake_provider, start, bank[0])
    response = await import_connection(
        gateway, credentials={"type": "OAUTH2_CC", "client_id": "c", "client_secret": "s"}, expect=400
    )
    assert response["error"]["errors"][0]["path"] == ["credentials", "client_certificate"]


async def test_a_certificate_of_another_authority_is_refused_by_the_provider(
    fake_provider: FakeProvider, start: Any, bank: Any
) -> None:
    url, _, seen = bank
    stranger, _ = issue_identity("stranger")
    gateway = await gateway_of(fake_provider, start, url)
    credentials = {"type": "OAUTH2_CC", "client_id": "c", "client_certificate": stranger.certificate}
    response = await import_connection(
        gateway, credentials={**credentials, "client_private_key": stranger.key}, expect=502
    )
    assert response["error"]["code"] == "upstream_unreachable"
    assert seen == []


async def test_a_key_that_does_not_match_its_certificate_is_refused_by_the_gateway(
    fake_provider: FakeProvider, start: Any, bank: Any
) -> None:
    url, identity, _ = bank
    other, _ = issue_identity("other")
    gateway = await gateway_of(fake_provider, start, url)
    credentials = {"type": "OAUTH2_CC", "client_id": "c", "client_certificate": identity.certificate}
    response = await import_connection(
        gateway, credentials={**credentials, "client_private_key": other.key}, expect=400
    )
    assert "do not belong together" in response["error"]["message"]
    assert identity.key not in json_of(response)


async def test_a_connection_is_never_sent_with_another_connections_certificate(
    fake_provider: FakeProvider, start: Any, bank: Any
) -> None:
    """Each certificate has a separate pool for the same origin, so an idle connection is used only for its own
    certificate.
    """
    url, identity, seen = bank
    gateway = await gateway_of(fake_provider, start, url)
    base = {"type": "OAUTH2_CC", "client_id": "c", "client_certificate": identity.certificate}
    await import_connection(gateway, credentials={**base, "client_private_key": identity.key})
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    # a call without a certificate must not use the pool that is open now
    runtime = gateway.runtime
    with pytest.raises(egress_client.EgressError):
        await runtime.generation.egress.fetch("GET", f"{url}/api/x", headers={"Authorization": "Bearer bank-1"})
    assert len(seen) == 2


def json_of(value: Any) -> str:
    import json

    return json.dumps(value)


async def test_an_api_key_may_need_a_certificate_too(fake_provider: FakeProvider, start: Any, bank: Any) -> None:
    url, identity, seen = bank
    fake_provider.url = url
    gateway = await start(
        auth_mode="API_KEY",
        require_client_certificate=True,
        proxy={"base_url": f"{url}/api", "headers": {"authorization": "Bearer ${apiKey}"}},
    )
    certificate = {"client_certificate": identity.certificate, "client_private_key": identity.key}
    await import_connection(gateway, credentials={"type": "API_KEY", "apiKey": "bank-1", **certificate})
    for _ in range(3):
        async with gateway.call_proxy("c1") as response:
            assert response.status == 200
    assert seen == [("/api/x", "customer")] * 3

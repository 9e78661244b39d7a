"""A provider at https://127.0.0.1 on any real port: gateways reach it through `egress.proxy`.

So its URL, which stores and catalogs contain, is the same in every run. Tokens contain their person and their
generation, `rt-ann-1` and `at-ann-1`, so that today's provider knows the tokens of an old store. Refresh tokens rotate;
sending one twice ends the grant.
"""

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import ipaddress
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fakes.patience import PATIENCE_S

ORIGIN = "https://127.0.0.1"
TOKEN_LIFETIME_S = 3650 * 86400  # long, since a test cannot move the expiry that is sealed with a pending grant


@dataclass
class Provider:
    """`proxy_port` and `certificate`: the gateway's PROXY_PORT and SSL_CERT_FILE.

    `refuses_hooks_of`: the targets in ``/hooks/{target}`` that respond with 503. `hooks`: the events by
    id, as (header fields, body).
    """

    certificate: Path
    proxy_port: int = 0
    refuses_hooks_of: set[str] = field(default_factory=set)
    hooks: dict[str, asyncio.Future[tuple[dict[str, str], bytes]]] = field(default_factory=dict)
    token_requests: Counter[str] = field(default_factory=Counter)
    _challenges: dict[str, str] = field(default_factory=dict)
    _spent: set[str] = field(default_factory=set)

    def authorized(self, authorization_url: str, person: str) -> str:
        """Return the query of the callback after `person` has consented at `authorization_url`."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(authorization_url).query).items()}
        assert authorization_url.startswith(f"{ORIGIN}/oauth/authorize?"), authorization_url
        self._challenges[f"code-{person}"] = query["code_challenge"]
        return f"code=code-{person}&state={query['state']}"

    def reset(self) -> None:
        """Forget all codes, spent tokens, requests and events, as before the first call of a gateway."""
        self.hooks.clear()
        self.token_requests.clear()
        self._challenges.clear()
        self._spent.clear()

    def register_code(self, person: str, challenge: str) -> None:
        """Register a code that was issued in an earlier run."""
        self._challenges[f"code-{person}"] = challenge

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        kind = str(form["grant_type"])
        if kind == "client_credentials":
            self.token_requests[kind] += 1
            return web.json_response(
                {"access_token": "at-machine-1", "token_type": "Bearer", "expires_in": TOKEN_LIFETIME_S}
            )
        if kind == "authorization_code":
            code = str(form["code"])
            verifier = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            if base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() != self._challenges.pop(code, ""):
                return web.json_response({"error": "invalid_grant"}, status=400)
            person, generation = code.removeprefix("code-"), 1
        else:
            token = str(form["refresh_token"])
            _, person, number = token.rsplit("-", 2)
            self.token_requests[person] += 1
            if person == "slow":
                return web.json_response(
                    {"error": "temporarily_unavailable"}, status=503, headers={"Retry-After": "86400"}
                )
            if person == "dead" or token in self._spent:
                return web.json_response({"error": "invalid_grant", "error_description": "It was revoked."}, status=400)
            self._spent.add(token)
            generation = int(number) + 1
        return web.json_response(
            {
                "access_token": f"at-{person}-{generation}",
                "refresh_token": f"rt-{person}-{generation}",
                "token_type": "Bearer",
                "expires_in": TOKEN_LIFETIME_S,
                "scope": "contacts.read offline_access",
            }
        )

    async def revoke(self, request: web.Request) -> web.Response:
        return web.Response()

    async def hook(self, request: web.Request) -> web.Response:
        target = request.match_info["target"]
        if target in self.refuses_hooks_of:
            return web.Response(status=503, headers={"Retry-After": "600"})
        body = await request.read()
        event = self.hooks.setdefault(request.headers["webhook-id"], asyncio.Future())
        if not event.done():  # a second webhook URL gets the same event
            event.set_result((dict(request.headers), body))
        return web.Response()

    async def delivered(self, message: str) -> tuple[dict[str, str], bytes]:
        """Wait for the event with the id `message`. Return its header fields and body."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.hooks.setdefault(message, asyncio.Future())

    async def api(self, request: web.Request) -> web.Response:
        """Return the credential that the request contains, without the parts of a signature that change each time."""
        credential = {name: request.headers[name] for name in ("Authorization", "X-Api-Key") if name in request.headers}
        if credential.get("Authorization", "").startswith(("OAuth ", "AWS4-")):
            credential["Authorization"] = credential["Authorization"].split()[0]
        return web.json_response({"method": request.method, "path": request.path, "credential": credential})


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Provider]:
    certificate, context = _certified(folder)
    provider = Provider(certificate)
    app = web.Application()
    app.router.add_post("/oauth/token", provider.token)
    app.router.add_post("/oauth/revoke", provider.revoke)
    app.router.add_post("/hooks/{target}", provider.hook)
    app.router.add_route("*", "/api/{rest:.*}", provider.api)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    tasks = set[asyncio.Task[None]]()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"CONNECT 127.0.0.1:443 "), head
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))
        writer.close()
        tasks.discard(task)

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    provider.proxy_port = proxy.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        proxy.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await runner.cleanup()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    finally:
        sink.close()


def _certified(folder: Path) -> tuple[Path, ssl.SSLContext]:
    key: Any = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "provider")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "provider.crt", folder / "provider.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    private.write_bytes(public.read_bytes() + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(private)
    return public, context

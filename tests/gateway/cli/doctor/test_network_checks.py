"""Findings of `gateway doctor` that need a network: public URL, providers, webhooks, and clock differences."""

import base64
import datetime as dt
import re
import secrets
import ssl
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

from tests.fakes.certificate import tls_contexts
from tests.fakes.gateways import RunningGateway, document, free_socket, tracker_entry, write_entry
from tests.fakes.tracker import Tracker
from tests.gateway.cli.config_file import ConfigFile, responding


async def test_doctor_works_without_a_running_gateway(config_file: ConfigFile, running: RunningGateway) -> None:
    await running.stop()
    result = await config_file.report()
    assert result.levels("gateway") == {"ok"}
    (warning,) = result.of("public URL")
    assert (warning["level"], warning["line"]) == ("warn", config_file.line("server:"))
    assert "serve" in warning["fix"]
    assert result.levels("store") == {"ok"}


async def test_a_public_url_that_reaches_another_server_is_reported(config_file: ConfigFile) -> None:
    async def serve_nginx_page(_: web.Request) -> web.Response:
        return web.Response(text="Welcome to nginx!")

    async with responding(serve_nginx_page) as server:
        config_file.document["server"]["public_url"] = f"http://127.0.0.1:{server.port}"
        result = await config_file.report()
    (fault,) = result.of("public URL")
    assert (result.code, fault["level"], fault["line"]) == (1, "fail", config_file.line("public_url"))
    assert "does not reach a gateway" in fault["message"]
    assert "server.public_url" in fault["fix"]


async def test_a_redirect_of_the_public_url_is_reported(config_file: ConfigFile) -> None:
    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPMovedPermanently("https://login.example.com/")

    async with responding(redirect) as server:
        config_file.document["server"]["public_url"] = f"http://127.0.0.1:{server.port}"
        (fault,) = (await config_file.report()).of("public URL", "fail")
    assert "a redirect to login.example.com" in fault["message"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_certificate_of_the_public_url_is_checked(
    config_file: ConfigFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    async def health(_: web.Request) -> web.Response:
        return web.json_response({"result": "ok"})

    serving, _ = tls_contexts("localhost", tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context())
    async with responding(health, serving) as server:
        config_file.document["server"]["public_url"] = f"https://localhost:{server.port}"
        (found,) = (await config_file.report()).of("public URL")
    assert found["level"] == ("ok" if trusted else "fail")
    assert trusted or "certificate that is not trusted" in found["message"]


async def test_another_gateway_at_the_public_url_is_reported(config_file: ConfigFile, tmp_path: Path) -> None:
    """Another gateway responds, such as a demo on the same port, with another encryption key."""
    elsewhere = document([])
    elsewhere["store"]["encryption_keys"] = [base64.b64encode(secrets.token_bytes(32)).decode()]
    elsewhere["environments"]["dev"]["integrations"] = {}
    (tmp_path / "elsewhere").mkdir()
    other = RunningGateway(tmp_path / "elsewhere", elsewhere)
    del elsewhere["catalog"]
    await other.start()
    try:
        config_file.document["server"] |= {"port": elsewhere["server"]["port"], "public_url": other.url}
        result = await config_file.report()
    finally:
        await other.stop()
    (local,), (public,) = result.of("gateway"), result.of("public URL")
    assert (result.code, local["level"], public["level"]) == (1, "fail", "fail")
    assert local["message"].startswith("another gateway listens on")
    assert local["line"] == config_file.line("port:")
    assert "Ctrl-C" in local["fix"]
    assert "reaches another gateway" in public["message"]


async def test_a_gateway_is_recognized_after_its_first_encryption_key_was_replaced(config_file: ConfigFile) -> None:
    keys = config_file.document["store"]["encryption_keys"]
    config_file.document["store"]["encryption_keys"] = ["QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", *keys]
    result = await config_file.report()
    assert (result.levels("gateway"), result.levels("public URL")) == ({"ok"}, {"ok"})


async def test_older_gateway_does_not_identify_itself(config_file: ConfigFile) -> None:
    async def health(_: web.Request) -> web.Response:
        return web.json_response({"result": "ok"})

    async with responding(health) as server:
        url = f"http://127.0.0.1:{server.port}"
        config_file.document["server"] |= {"port": server.port, "public_url": url}
        result = await config_file.report()
    assert (result.levels("gateway"), result.levels("public URL")) == ({"ok"}, {"ok"})


async def test_a_name_without_an_address_is_found(config_file: ConfigFile, monkeypatch: pytest.MonkeyPatch) -> None:
    config_file.document["server"]["public_url"] = "https://gateway.invalid"
    (fault,) = (await config_file.report()).of("public URL")
    assert fault["level"] == "fail"
    assert "DNS" in fault["message"]


async def test_an_address_that_egress_refuses_is_found(config_file: ConfigFile) -> None:
    config_file.document["egress"]["allow"] = ["127.0.0.1/32:1"]
    result = await config_file.report()
    (fault, *_) = result.of("egress", "fail")
    assert (result.code, fault["line"]) == (1, config_file.line("egress:") + 1)
    assert "egress.allow" in fault["fix"]


async def test_a_provider_that_cannot_be_reached_is_found(
    config_file: ConfigFile, tracker: Tracker, running: RunningGateway
) -> None:
    entry = tracker_entry(tracker.url, proxy={"base_url": "https://api.invalid"})
    write_entry(running.folder, "tracker", entry)
    (fault,) = (await config_file.report()).of("provider")
    assert fault["level"] == "fail"
    assert "proxy.base_url" in fault["message"]
    assert fault["line"] == config_file.line("provider: tracker")
    assert "tracker.yaml:" in fault["fix"]


@pytest.mark.parametrize(("ahead_s", "level"), [(0, "ok"), (-30, "warn"), (600, "fail")])
async def test_clock_is_compared_with_providers(
    config_file: ConfigFile, running: RunningGateway, ahead_s: int, level: str
) -> None:
    requests = []

    async def response_with_date(request: web.Request) -> web.Response:
        requests.append((request.method, request.path, request.headers.get("Authorization")))
        provider_time = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=ahead_s)
        return web.Response(headers={"Date": format_datetime(provider_time, usegmt=True)})

    async with responding(response_with_date) as server:
        url = f"http://127.0.0.1:{server.port}"
        write_entry(running.folder, "tracker", tracker_entry(url))
        config_file.document["egress"]["allow"] = [f"127.0.0.1/32:{server.port}"]
        result = await config_file.report()
    assert result.levels("clock") == {level}
    assert requests == [("HEAD", "/", None)], "each origin gets one request, without a credential"
    if ahead_s:
        seconds, direction = re.findall(r"clock is (\d+) s (ahead of|behind) 127", result.of("clock")[0]["message"])[0]
        assert (abs(int(seconds) - abs(ahead_s)) <= 3, direction) == (True, "ahead of" if ahead_s > 0 else "behind")


async def test_the_clock_of_the_application_is_not_compared(config_file: ConfigFile) -> None:
    async def an_hour_late(_: web.Request) -> web.Response:
        provider_time = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
        return web.Response(headers={"Date": format_datetime(provider_time, usegmt=True)})

    async with responding(an_hour_late) as server:
        config_file.document["environments"]["dev"]["webhook_url"] = f"http://127.0.0.1:{server.port}/events"
        config_file.document["egress"]["allow"].append(f"127.0.0.1/32:{server.port}")
        result = await config_file.report()
    assert result.levels("webhook") == {"ok"}
    (agreed,) = result.of("clock")
    assert (agreed["level"], f"127.0.0.1:{server.port}" in agreed["message"]) == ("ok", False)


async def test_offline_option_makes_no_connection(config_file: ConfigFile, running: RunningGateway) -> None:
    async def fail_if_called(_: web.Request) -> web.Response:
        raise AssertionError("it was asked")

    async with responding(fail_if_called) as server:
        url = f"http://127.0.0.1:{server.port}"
        write_entry(running.folder, "tracker", tracker_entry(url))
        config_file.document["server"]["public_url"] = url
        result = await config_file.report("--offline")
    assert not result.of("public URL")
    assert not result.of("provider")
    assert result.of("redirect")


async def test_advice_for_a_receiver_that_does_not_run_is_to_start_it(config_file: ConfigFile) -> None:
    with free_socket() as closed:
        port = closed.getsockname()[1]
    config_file.document["environments"]["dev"]["webhook_url"] = f"http://127.0.0.1:{port}/events"
    config_file.document.setdefault("egress", {}).setdefault("allow", []).append(f"127.0.0.1/32:{port}")
    (fault,) = (await config_file.report()).of("webhook")
    assert "could not be reached" in fault["message"]
    assert fault["fix"] == "start the receiver, or correct webhook_url"


async def test_advice_for_a_receiver_that_egress_refuses_is_to_allow_it(config_file: ConfigFile) -> None:
    config_file.document["environments"]["dev"]["webhook_url"] = "http://127.0.0.2:9/events"
    (fault,) = (await config_file.report()).of("webhook")
    assert fault["fix"] == "add its IP address to egress.allow, or correct webhook_url"


async def test_an_unreachable_webhook_url_is_reported(config_file: ConfigFile) -> None:
    config_file.document["environments"]["dev"]["webhook_url"] = "https://hooks.invalid/x?token=hidden"
    result = await config_file.report()
    (fault,) = result.of("webhook")
    assert (fault["level"], fault["line"]) == ("fail", config_file.line("webhook_url"))
    assert "token=hidden" not in result.text

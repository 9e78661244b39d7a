"""A hundred catalog entries, drawn at random with a fixed seed, do what their facts say.

The test checks what a provider receives: the authorization URL that the user opens, the token request, and the proxied
request.

The facts are a shortened copy (`tools/facts_sample.py`), because the whole file is not in the repository. Set
CATALOG_FACTS to the path of the whole file to draw CATALOG_FACTS_COUNT other entries with CATALOG_FACTS_SEED. The test
computes the expected values from the facts and from tools/corrections, without the gateway.
"""

import base64
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import pytest
import yaml
from aiohttp import web

from gateway import resources
from gateway.auth import modes
from gateway.catalog.hosts import open_secret_urls
from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.provider import Provider
from tests.fakes.certificate import issue_identity
from tests.fakes.gateways import RunningGateway, document
from tests.fakes.internet import ORIGIN, divert_requests
from tools.catalog_from_facts.inheritance import FAMILIES
from tools.facts_sample import COUNT, SAMPLE, draw_providers, generated_entries

CORRECTIONS = Path(__file__).parents[2] / "tools" / "corrections"
CLIENT = {"client_id": "the client", "client_secret": "s3cret/+"}
TOKEN = "the-access-token"
KEY = "the-api-key-0123456789"


def facts() -> list[dict[str, Any]]:
    path = os.environ.get("CATALOG_FACTS")
    if path is None:
        sample: list[dict[str, Any]] = json.loads(SAMPLE.read_text(encoding="utf-8"))
        return sample
    whole = json.loads(Path(path).read_text(encoding="utf-8"))
    options = {
        key: int(os.environ.get(f"CATALOG_FACTS_{key.upper()}", value))
        for key, value in (("seed", 0), ("count", COUNT))
    }
    return draw_providers(whole, generated_entries(), **options)


class Internet:
    """All providers in one server. It responds to every request, and records the requests in `seen`."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.token_response: dict[str, Any] = {}

    async def response(self, request: web.Request) -> web.Response:
        origin = request.headers[ORIGIN]
        result = {name: value for name, value in request.headers.items() if name != ORIGIN}
        self.seen.append(
            {
                "method": request.method,
                "url": origin + request.raw_path,
                "headers": {name.lower(): value for name, value in result.items()},
                "body": (await request.read()).decode(),
            }
        )
        if request.raw_path == "/oauth/token/accessible-resources":
            return web.json_response(
                [{"id": "site-1", "url": "https://acme.atlassian.net", "name": "acme", "scopes": []}]
            )
        return web.json_response(self.token_response)


async def test_a_hundred_entries_behave_as_their_facts_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[str] = []
    web_of_providers = Internet()
    async with divert_requests(monkeypatch, web_of_providers.response) as port:
        chosen = [entry for entry in facts() if entry["auth_mode"] in modes()]
        running = RunningGateway(tmp_path, gateway_yaml(chosen, port))
        await running.start()
        try:
            for entry in chosen:
                expected = ExpectedEntry(entry, await running.json("GET", f"/providers/{entry['name']}"))
                wrong += [
                    f"{entry['name']}: {fault}" async for fault in entry_faults(running, web_of_providers, expected)
                ]
        finally:
            await running.stop()
    assert not wrong, "\n" + "\n".join(wrong)
    assert len(chosen) >= 0.9 * COUNT


def gateway_yaml(chosen: list[dict[str, Any]], port: int) -> dict[str, Any]:
    configuration = document([f"127.0.0.1/32:{port}"])
    configuration["catalog"] = []
    shipped = load_catalog([resources.folder("catalog")]).providers
    configuration["environments"]["dev"]["integrations"] = {
        entry["name"]: {
            "provider": entry["name"],
            **(CLIENT if entry["auth_mode"] == "OAUTH2" else {}),
            "allowed_hosts": hosts(shipped[entry["name"]]),
        }
        for entry in chosen
    }
    return configuration


def hosts(provider: Provider) -> list[str]:
    """Return example values for the settings with which an end user names the host that receives the client secret."""
    settings = {name: provider.connection_config[name] for _, name in open_secret_urls(provider)}
    return [setting.example for setting in settings.values() if setting.example]


async def entry_faults(running: RunningGateway, providers: Internet, expected: "ExpectedEntry") -> AsyncIterator[str]:
    """Connect and make a call. Yield each difference from the facts."""
    providers.seen.clear()
    providers.token_response = expected.token_response()
    if expected.mode == "OAUTH2":
        async for fault in authorization_faults(running, providers, expected):
            yield fault
    else:
        await import_connection(running, expected)
    (connection,) = (await running.json("GET", f"/connections?integrationId={expected.name}"))["connections"]
    options: dict[str, Any] = {"integration": expected.name, "skip_auto_headers": ["User-Agent", "Accept"]}
    async with running.call_proxy(connection["connection_id"], "/some/path?x=1", **options) as response:
        assert response.status == 200, (expected.name, await response.text())
    sent = providers.seen[-1]
    if sent["url"] != expected.proxied_url():
        yield f"called {sent['url']}, not {expected.proxied_url()}"
    for name, value in expected.proxied_headers().items():
        if sent["headers"].get(name) != value:
            yield f"sent {name}: {sent['headers'].get(name)}, not {value}"


async def authorization_faults(
    running: RunningGateway, providers: Internet, expected: "ExpectedEntry"
) -> AsyncIterator[str]:
    defaults = {expected.name: {"connection_config": expected.given}}
    token = await running.session_token(allowed_integrations=[expected.name], integrations_config_defaults=defaults)
    begin = f"{running.url}/oauth/connect/{expected.name}?connect_session_token={token}"
    async with running.http.get(begin, allow_redirects=False) as response:
        assert response.status == 302, (expected.name, await response.text())
        url = response.headers["Location"]
    base, query = split_url(url)
    if base != expected.authorization_url():
        yield f"sends users to {base}, not {expected.authorization_url()}"
    for name, value in expected.authorization(running.url).items():
        if query.get(name) != value:
            yield f"requests consent with {name}={query.get(name)}, not {value}"
    if ("code_challenge" in query) != expected.pkce:
        yield f"PKCE is {'on' if 'code_challenge' in query else 'off'}"
    callback_query = {"state": query["state"], expected.code_param: "the code", **expected.sent_by_callback()}
    async with running.http.get(f"{running.url}/oauth/callback", params=callback_query) as response:
        assert response.status == 200, (expected.name, await response.text())
    async for fault in token_request_faults(providers.seen[0], expected, running.url):
        yield fault


async def token_request_faults(sent: dict[str, Any], expected: "ExpectedEntry", url: str) -> AsyncIterator[str]:
    method = expected.facts.get("token_request_method", "POST")
    url_without_query, _, query = sent["url"].partition("?") if method == "GET" else (sent["url"], "", "")
    if (sent["method"], url_without_query) != (method, expected.fill_template(expected.facts["token_url"])):
        wanted = f"{method} {expected.fill_template(expected.facts['token_url'])}"
        yield f"requests a token by {sent['method']} {url_without_query}, not {wanted}"
    is_json = expected.facts.get("token_request_format") == "json"
    body = json.loads(sent["body"]) if is_json else dict(parse_qsl(query or sent["body"]))
    for name, value in expected.token_params(url).items():
        if body.get(name) != value:
            yield f"requests a token with {name}={body.get(name)}, not {value}"
    pair = ":".join(quote(value, safe="") for value in CLIENT.values())
    basic = "Basic " + base64.b64encode(pair.encode()).decode()
    if (sent["headers"].get("authorization") == basic) != expected.by_basic:
        yield f"authenticates its client by {sent['headers'].get('authorization') or 'its body'}"


async def import_connection(running: RunningGateway, expected: "ExpectedEntry") -> None:
    body = {
        "provider_config_key": expected.name,
        "connection_id": f"of {expected.name}",
        "connection_config": expected.given,
        "credentials": {"type": expected.mode, **expected.credential},
    }
    await running.json("POST", "/connections", json=body, expect=201)


def split_url(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL without query and fragment, and the query. Some consent pages expect the query in the fragment."""
    parts = urlsplit(url)
    path, _, inner = parts.fragment.partition("?")
    query = {name: values[0] for name, values in parse_qs(inner or parts.query, keep_blank_values=True).items()}
    return f"{parts.scheme}://{parts.netloc}{parts.path}{f'#{path}' if path else ''}".split("#")[0], query


class ExpectedEntry:
    """The entry that a provider's facts and corrections describe. Values are filled in by simple replacement."""

    def __init__(self, facts: dict[str, Any], entry: dict[str, Any]) -> None:
        family = _correction(facts.get("family") if facts.get("family") in FAMILIES else None)
        # A correction of a family's base entry applies to all members of the family that share the field.
        inherited = {key: family[key] for key in ("disable_pkce",) if key in family}
        correction = {**inherited, **_correction(facts["name"])}
        self.facts = apply_correction(facts, correction)
        self.name = str(facts["name"])
        self.mode = str(facts["auth_mode"])
        forms = entry["data"].get("connection_config", {})
        # Settings that only the URLs of another region need are left empty, as most users leave them empty.
        elsewhere = _settings_in(entry["data"].get("alternatives", {}))
        elsewhere -= _settings_in({**self.facts, "alternatives": None})
        self.values = {name: _example(form) for name, form in forms.items() if name not in elsewhere}
        self.given = {name: text for name, text in self.values.items() if not forms[name].get("automated")}
        self.pkce = self.facts.get("pkce") is not False and not correction.get("disable_pkce")
        self.code_param = self.facts.get("authorization_code_param_in_callback", "code")
        self.by_basic = self.facts.get("token_request_auth_method") == "basic"
        self.scopes = self.facts.get("default_scopes", [])
        hidden = {name: form.get("default_value", "") for name, form in entry["data"].get("credentials", {}).items()}
        self.credential = {
            "API_KEY": {"apiKey": KEY},
            "BASIC": {name: hidden.get(name) or f"the-{name}" for name in ("username", "password")},
            "OAUTH2_CC": {
                "token": TOKEN,
                "client_id": "id",
                "client_secret": "secret",
                **_client_certificate(entry["data"]),
            },
            "OAUTH2": {},
        }[self.mode]

    def token_response(self) -> dict[str, Any]:
        response: dict[str, Any] = {
            "token_type": "bearer",
            "expires_in": 3600,
            "refresh_token": "r",
            "access_token": TOKEN,
        }
        for path in self.facts.get("token_response_metadata", ()):
            *steps, last = path.split(".")
            inner = response
            for step in steps:
                inner = inner.setdefault(step, {})
            inner[last] = self.values.get(path, "a value")
        places = self.facts.get("token_response", {})
        for key, value in (("token_path", TOKEN), ("refresh_token_path", "r"), ("expiry_path", 3600)):
            *steps, last = places.get(key, "unused").split(".")
            inner = response
            for step in steps:
                inner = inner.setdefault(step, {})
            inner[last] = value
        return response

    def sent_by_callback(self) -> dict[str, str]:
        return {name: self.values.get(name, "a value") for name in self.facts.get("callback_metadata", ())}

    def authorization(self, url: str) -> dict[str, str]:
        params = {"response_type": "code", "client_id": CLIENT["client_id"], "redirect_uri": f"{url}/oauth/callback"}
        if self.scopes:
            separator = self.facts.get("scope_separator", " ").replace("+", " ")
            params["scope"] = separator.join(self.scopes)
        renames = {k.rstrip("="): v.rstrip("=") for k, v in self.facts.get("authorization_param_renames", {}).items()}
        params = {renames.get(name, name): value for name, value in params.items() if renames.get(name, name)}
        return {**params, **self.params("authorization_params", self.given)}

    def authorization_url(self) -> str:
        return self.fill_template(self.facts["authorization_url"].replace("${clientId}", quote(CLIENT["client_id"])))

    def token_params(self, url: str) -> dict[str, str]:
        params = {"grant_type": "authorization_code", "code": "the code", "redirect_uri": f"{url}/oauth/callback"}
        if not self.by_basic:
            params |= CLIENT
        renames = self.facts.get("token_param_renames", {})
        params = {renames.get(name, name): value for name, value in params.items() if renames.get(name, name)}
        return {**params, **self.params("token_params", self.given)}

    def params(self, key: str, known_values: Mapping[str, str]) -> dict[str, str]:
        templates = self.facts.get(key, {})
        texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in templates.items()}
        return {name: self.fill_template(text) for name, text in texts.items() if is_steady(text, known_values)}

    def proxied_url(self) -> str:
        query = "".join(
            f"&{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.expected_templates("query")
        )
        base = urlsplit(self.fill_template(self.facts["proxy"]["base_url"]))
        return f"{base.scheme}://{base.netloc.lower()}{base.path.rstrip('/')}/some/path?x=1{query}"

    def proxied_headers(self) -> dict[str, str]:
        return dict(self.expected_templates("headers"))

    def expected_templates(self, where: str) -> Iterator[tuple[str, str]]:
        for name, template in self.facts["proxy"].get(where, {}).items():
            # A content type is only a default for requests with a body. Values that change each time have another test.
            if name != "content-type" and is_steady(template, self.values):
                yield name, self.fill_template(template)

    def fill_template(self, template: str) -> str:
        known = {**{f"connectionConfig.{name}": text for name, text in self.values.items()}}
        known |= {
            "accessToken": TOKEN,
            "clientId": CLIENT["client_id"],
            "clientSecret": CLIENT["client_secret"],
            **self.credential,
        }
        text = re.sub(r"\$\{([\w.-]+)\}", lambda found: known.get(found[1], found[0]), template)
        return re.sub(r"\$\{base64\((.*?)\)\}", lambda found: base64.b64encode(found[1].encode()).decode(), text)


def _settings_in(value: Any) -> set[str]:
    return set(re.findall(r"\$\{connectionConfig\.([\w.-]+)\}", json.dumps(value)))


def is_steady(template: str, known_values: Mapping[str, str]) -> bool:
    """Return whether all settings in the template are known, and its value is the same each time."""
    names = re.findall(r"\$\{connectionConfig\.([\w.-]+)\}", template)
    return "${random}" not in template and all(known_values.get(name) for name in names)


def apply_correction(facts: dict[str, Any], correction: Mapping[str, Any]) -> dict[str, Any]:
    """Return `facts` with the values of the correction. The value ``null`` removes a field."""
    result = dict(facts)
    for key, value in correction.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = apply_correction(result.get(key, {}), value)
        else:
            result[key] = value
    if "disable_pkce" in correction:
        result["pkce"] = None
    if "body_format" in correction:
        result["token_request_format"] = correction["body_format"]
    if "redirect_uri_metadata" in correction:
        result["callback_metadata"] = correction["redirect_uri_metadata"]
    return result


def _correction(name: str | None) -> dict[str, Any]:
    path = CORRECTIONS / f"{name}.yaml"
    if name is None or not path.exists():
        return {}
    correction: dict[str, Any] = _without_comments(yaml.safe_load(path.read_text(encoding="utf-8")))
    return correction


def _without_comments(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_comments(member) for key, member in value.items() if not key.endswith("#")}


def _client_certificate(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return a certificate, for a provider that requires mutual TLS."""
    if not entry.get("require_client_certificate"):
        return {}
    identity, _ = issue_identity("customer")
    return {"client_certificate": identity.certificate, "client_private_key": identity.key}


def _example(form: Mapping[str, Any]) -> str:
    return str(form.get("default_value") or form.get("example") or (form.get("enum") or ["example"])[0])

"""A key for ``GET /ex/*/rest/api/3/search*`` on one connection, and attempts to do more with this key.

Each attempt is made through the fast path and through the middleware chain. Only requests that the rule allows reach
the provider.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.keyed import TwoConnectionGateway, two_connection_gateway

RULE = "GET /ex/*/rest/api/3/search*"
GOOD = b"/ex/jira/rest/api/3/search?maxResults=2"


@pytest.fixture(params=["fast path", "chain"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TwoConnectionGateway]:
    async with two_connection_gateway(tmp_path, fast_path=request.param == "fast path") as made:
        await made.warm()
        made.provider.heads.clear()
        yield made


def message(
    key: str, target: bytes = b"/proxy" + GOOD, more: bytes = b"", *, method: bytes = b"GET", connection: bytes = b"c1"
) -> bytes:
    headers = b"Host: gw\r\nAuthorization: Bearer %b\r\nProvider-Config-Key: acme\r\nConnection-Id: %b\r\n"
    return method + b" " + target + b" HTTP/1.1\r\n" + headers % (key.encode(), connection) + more + b"\r\n"


async def limited_key(gateway: TwoConnectionGateway) -> str:
    result = await gateway.key(limits={"connections": ["acme/c1"], "rules": [RULE]})
    assert result["scopes"] == ["environment:proxy"]
    secret: str = result["secret"]
    return secret


async def test_key_makes_the_calls_that_its_rule_allows(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    for _ in range(3):
        response = await gateway.raw(message(key))
        assert (response.status, response.body.data) == (200, b"ok")
    assert [gateway.provider.request_line(n) for n in range(3)] == [f"GET {GOOD.decode()} HTTP/1.1"] * 3
    if gateway.running.on_fast_path:
        assert gateway.running.fast_path.taken >= 1, "the first call loads the key; a later call takes the fast path"
    for line in gateway.provider.lines():
        assert "gw_sk_" not in line


S = b"/proxy/ex/jira/rest/api/3/"
PATHS = (
    ("another end", S + b"issue/X-1"),
    ("one more segment", S + b"search/X-1"),
    ("a trailing slash", S + b"search/"),
    ("dot segments", S + b"search/../issue"),
    ("dot segments at the end", S + b"search/.."),
    ("an encoded dot segment", S + b"search/%2e%2e/issue"),
    ("half encoded", S + b"search/.%2e/issue"),
    ("an encoded slash", S + b"search%2f..%2fissue"),
    ("an encoded slash alone", S + b"search%2Fissue"),
    ("an encoded slash in the run", b"/proxy/ex/jira%2f..%2f../rest/api/3/search"),
    ("a slash encoded twice", S + b"search%252f..%252fissue"),
    ("a backslash", S + b"search\\..\\issue"),
    ("an encoded backslash", S + b"search%5c..%5cissue"),
    ("a double slash", b"/proxy//ex/jira/rest/api/3/search"),
    ("a double slash inside", b"/proxy/ex//rest/api/3/search"),
    ("an authority in the path", b"/proxy//evil.example/ex/jira/rest/api/3/search"),
    ("a path parameter", S + b"search;/../issue"),
    ("a path parameter alone", S + b"search;v=1"),
    ("an encoded path parameter", S + b"search%3bv"),
    ("dots and a parameter", S + b"search/..;/issue"),
    ("a trailing dot", S + b"search."),
    ("a trailing space", S + b"search%20"),
    ("an encoded end", S + b"search%00.json"),
    ("an encoded line end", S + b"search%0d%0aX:y"),
    ("an encoded query mark", S + b"search%3fx"),
    ("an encoded hash", S + b"search%23x"),
    ("a hash", S + b"search#/../issue"),
    ("an overlong slash", S + b"search%c0%afissue"),
    ("a wide slash", S + b"search%ef%bc%8fissue"),
    ("no encoding at all", S + b"search%zz"),
    ("an encoded letter", S + b"%73earch"),
    ("other case", b"/proxy/EX/jira/REST/api/3/search"),
    ("a prefix more", b"/proxy/x/ex/jira/rest/api/3/search"),
    ("an encoded mount", b"/%70roxy/ex/jira/rest/api/3/search"),
    ("the base itself", b"/proxy"),
    ("two segments in the run", b"/proxy/ex/a/b/rest/api/3/search"),
    ("another target in the query alone", b"/proxy/?/ex/jira/rest/api/3/search"),
    ("another authority", b"http://evil.example/proxy" + GOOD),
    ("a method in the query", b"/proxy" + GOOD + b"&_method=DELETE"),
    ("an encoded method in the query", b"/proxy" + GOOD + b"&%5fmethod=DELETE"),
    ("a method as Facebook takes it", b"/proxy" + GOOD + b"&method=delete"),
    ("a method as Google takes it", b"/proxy" + GOOD + b"&$httpMethod=DELETE"),
    ("a header's name as a parameter", b"/proxy" + GOOD + b"&X-Method-Override=DELETE"),
)


async def test_no_path_outside_the_rules_is_sent(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    await gateway.raw(message(key))
    gateway.provider.heads.clear()
    assert len(PATHS) >= 40
    for name, target in PATHS:
        response = await gateway.raw(message(key, target))
        assert response.status in {400, 403, 404}, name
        assert response.code, name
        assert gateway.provider.heads == [], name


FIELDS = (
    ("an override of the method", b"X-HTTP-Method-Override: DELETE\r\n"),
    ("with underscores", b"X_HTTP_METHOD_OVERRIDE: DELETE\r\n"),
    ("another name of it", b"X-HTTP-Method: DELETE\r\n"),
    ("a third name", b"X-Method-Override: DELETE\r\n"),
    ("a fourth name", b"X-Http-Verb-Override: DELETE\r\n"),
    ("a fifth name", b"X-Ms-Http-Method-Override: DELETE\r\n"),
    ("a sixth name", b"X-HttpMethod: DELETE\r\n"),
    ("minted by our prefix", b"Nango-Proxy-X-HTTP-Method-Override: DELETE\r\n"),
    ("another path", b"X-Original-URL: /rest/api/3/issue\r\n"),
    ("a rewritten path", b"X-Rewrite-URL: /rest/api/3/issue\r\n"),
    ("a path by another name", b"X-Request-Uri: /rest/api/3/issue\r\n"),
    ("an object to copy at S3", b"X-Amz-Copy-Source: /bucket/secret\r\n"),
    ("with underscores again", b"X_Amz_Copy_Source: /bucket/secret\r\n"),
    ("by our prefix", b"Nango-Proxy-X-Amz-Copy-Source: /bucket/secret\r\n"),
    ("an object to copy at Azure", b"X-Ms-Copy-Source: https://account.blob.core.windows.net/secret\r\n"),
    ("a file to rename at Azure", b"X-Ms-Rename-Source: /secret\r\n"),
    ("an object to copy at Google", b"X-Goog-Copy-Source: /bucket/secret\r\n"),
    ("an object to copy at Swift", b"X-Copy-From: /container/secret\r\n"),
    ("another connection too", b"Connection-Id: c2\r\n"),
    ("another connection in CGI's spelling", b"Connection_Id: c2\r\nX-HTTP-Method: PUT\r\n"),
    ("another key too", b"Authorization: Bearer sk-other-0123456789abcdef\r\n"),
    ("another host", b"Base-Url-Override: https://evil.example\r\n"),
    ("a base that is no longer below it", b"Base-Url-Override: http://127.0.0.1:PORT/admin\r\n"),
    ("a WebSocket", b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
    ("a dry run elsewhere", b"Gateway-Dry-Run: true\r\nBase-Url-Override: http://127.0.0.1:PORT/x\r\n"),
    ("retries of what is refused", b"Retries: 5\r\nX-Method: POST\r\n"),
)


async def test_no_header_turns_an_allowed_request_into_another(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    await gateway.raw(message(key))
    gateway.provider.heads.clear()
    for name, more in FIELDS:
        response = await gateway.raw(message(key, more=more.replace(b"PORT", b"%d" % gateway.provider.port)))
        assert response.status in {400, 403, 404}, name
        assert response.code, name
        assert gateway.provider.heads == [], name


OTHER_OBJECTS = (
    b"x-amz-rename-source", b"X_Amz_Rename_Source", b"x-ms-file-rename-source", b"x-oss-rename-source",
    b"x-oss-symlink-target", b"x-cos-symlink-target", b"x-tos-symlink-target", b"x-bce-symlink-target",
    b"x-bce-fetch-source", b"x-qs-fetch-source", b"x-qs-copy-source", b"x-qs-move-source", b"x-nos-copy-source",
    b"x-nos-move-source", b"x-upyun-move-source", b"x-jss-copy-source", b"x-kss-copy-source", b"x-kss-sourceurl",
    b"x-vendor-of-tomorrow-copy-from", b"Nango-Proxy-X-Amz-Rename-Source",
)  # fmt: skip


COPIES = (
    (b"PUT", b"x-amz-copy-source: /container/secret"),
    (b"PUT", b"x-ms-copy-source: https://account.example/container/secret"),
    (b"PUT", b"x-ms-rename-source: /container/secret"),
    (b"PUT", b"x-goog-copy-source: container/secret"),
    (b"PUT", b"x-oss-copy-source: /container/secret"),
    (b"PUT", b"x-object-manifest: container/secret"),
    (b"PUT", b"x-emc-path: /container/secret"),
    *((b"PUT", name + b": /container/secret") for name in OTHER_OBJECTS),
    (b"COPY", b"Destination: /container/outbox/x"),
    (b"MOVE", b"Destination: https://dav.example/container/outbox/x"),
)


async def test_a_key_cannot_copy_objects_from_or_to_paths_outside_its_rules(gateway: TwoConnectionGateway) -> None:
    rules = ["PUT,COPY,MOVE /container/inbox/*"]
    key = (await gateway.key(limits={"connections": ["acme/c1"], "rules": rules}))["secret"]
    target, empty = b"/proxy/container/inbox/x", b"Content-Length: 0\r\n"
    for method, extra in COPIES:
        refused = await gateway.raw(message(key, target, empty + extra + b"\r\n", method=method))
        assert (refused.status, refused.code) == (403, "forbidden"), extra
        assert gateway.provider.heads == [], extra
    assert (await gateway.raw(message(key, target, empty, method=b"PUT"))).status == 200
    assert (await gateway.raw(message(key, target, empty + b"Destination: x\r\n", method=b"PUT"))).status == 200
    conditions = b"x-amz-copy-source-range: bytes=0-9\r\nx-source: a\r\nlink-target: b\r\nx-source-url: c\r\n"
    assert (await gateway.raw(message(key, target, empty + conditions, method=b"PUT"))).status == 200
    everything = (await gateway.key("wide", limits={"connections": ["acme/c1"]}))["secret"]
    for method, extra in COPIES:
        gateway.provider.heads.clear()
        assert (await gateway.raw(message(everything, target, empty + extra + b"\r\n", method=method))).status == 200
        assert len(gateway.provider.heads) == 1, f"a key without rules may send {extra.decode()}"


METHODS = (b"HEAD", b"OPTIONS", b"POST", b"PUT", b"PATCH", b"DELETE", b"get", b"PROPFIND", b"TRACE")


async def test_no_method_outside_the_rules_is_sent(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    for method in METHODS:
        more = b"" if method in {b"HEAD", b"OPTIONS"} else b"Content-Length: 0\r\n"
        response = await gateway.raw(message(key, more=more, method=method))
        assert response.status in {400, 403, 405, 501}, method
        assert response.code, method
        assert gateway.provider.heads == [], method


async def test_forbidden_and_missing_connections_get_the_same_response(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    bodies = set()
    for connection_id in (b"c2", b"c9"):
        response = await gateway.raw(message(key, connection=connection_id))
        assert (response.status, response.code) == (404, "unknown_connection")
        bodies.add(response.body.data.replace(connection_id, b"?"))
    assert len(bodies) == 1
    named = []
    for integration in ("nowhere", "acmes"):
        result = message(key).replace(b"Provider-Config-Key: acme", b"Provider-Config-Key: " + integration.encode())
        response = await gateway.raw(result)
        assert (response.status, response.code) == (404, "unknown_provider_config")
        named.append(response.body.data.replace(integration.encode(), b"?"))
    assert named[0] == named[1]
    assert gateway.provider.heads == []


async def test_limited_key_cannot_use_the_rest_of_the_gateway(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    for method, path, body in (
        ("GET", "/connections", None),
        ("GET", "/connections/c1?provider_config_key=acme", None),
        ("DELETE", "/connections/c1?provider_config_key=acme", None),
        ("POST", "/connections", {}),
        ("GET", "/integrations", None),
        ("POST", "/connect/sessions", {"end_user": {"id": "u"}}),
        ("GET", "/environment/api-keys", None),
        ("POST", "/environment/api-keys", {"display_name": "more"}),
        ("DELETE", "/environment/api-keys/1", None),
    ):
        status, headers, response = await gateway.call_api(method, path, key, json=body)
        assert (status, headers["Gateway-Error"]) == (403, "forbidden"), (method, path)
        assert response["error"]["message"].startswith("Insufficient scope. Required: environment:")
        assert response["error"]["payload"]["rule"] == "scope"
        assert response["error"]["payload"]["fix"]


async def test_error_names_the_rule_who_can_change_it_and_the_next_step(gateway: TwoConnectionGateway) -> None:
    key = await limited_key(gateway)
    url = f"{gateway.running.url}/proxy/ex/jira/rest/api/3/issue"
    headers = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": "c1"}
    async with gateway.running.http.get(url, headers=headers) as response:
        body = (await response.json())["error"]
    assert (response.status, body["code"]) == (403, "forbidden")
    assert "GET /ex/jira/rest/api/3/issue" in body["message"]
    assert body["payload"]["rule"] == "rules"
    assert body["payload"]["allowed"] == [RULE]
    assert body["payload"]["changed_by"]
    assert body["payload"]["fix"]


async def test_pagination_does_not_follow_links_outside_the_rule(tmp_path: Path) -> None:
    from tests.fakes.raw_provider import read_message

    heads: list[bytes] = []

    async def respond_and_record(reader: object, writer: object) -> None:
        while True:
            head, _ = await read_message(reader)  # type: ignore[arg-type]
            heads.append(head)
            body = b'{"items": [{"id": 1}]}'
            link = b"Link: </rest/api/3/issue?page=2>; rel=next\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (link, len(body), body))  # type: ignore[attr-defined]

    paginate = {"type": "link", "link_rel_in_response_header": "next", "response_path": "items"}
    async with two_connection_gateway(tmp_path, responded=respond_and_record, paginate=paginate) as gateway:
        key = await limited_key(gateway)
        response = await gateway.raw(message(key, more=b"Gateway-Paginate: all\r\n"))
        assert response.status == 200
        trailer = response.body.data.splitlines()[-1]
        assert b'"complete":false' in trailer.replace(b" ", b"")
        assert b"forbidden" in trailer
        assert len(heads) == 1
        everything = await gateway.raw(
            message(gateway.running.headers["Authorization"][7:], more=b"Gateway-Paginate: 2\r\n")
        )
        assert everything.status == 200
        assert len(heads) == 3, "a key without rules gets the second page"

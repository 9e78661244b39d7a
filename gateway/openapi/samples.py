"""A call of our API, ready to be pasted: as curl, as Python and as Node, each with nothing but what it comes with."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from gateway.openapi.operation import Operation

SHOWN = {
    "{provider}": "jira",
    "{unique_key}": "jira-eu",
    "{connection_id}": "user-1",
    "{integration_id}": "jira",
    "{environment}": "dev",
    "{name}": "jira",
    "{session_id}": "<SESSION_ID>",
    "{key_id}": "<KEY_ID>",
    "{capability}": "<CAPABILITY>",
    "{path}": "ex/jira/<cloudId>/rest/api/3/myself",
}


def samples(operation: Operation, public_url: str) -> list[tuple[str, str]]:
    """Title and text of each."""
    method = "GET" if operation.method == "*" else operation.method
    address = public_url + operation.path
    for name, text in SHOWN.items():
        address = address.replace(name, text)
    wanted = [f"{one.name}=jira" for one in operation.query if one.required]
    if operation.who == "session":
        wanted.append("connect_session_token=<TOKEN>")
    url = address + ("?" + "&".join(wanted) if wanted else "")
    headers = {"Authorization": "Bearer <SECRET_KEY>"} if operation.who == "key" else {}
    headers |= {
        one.name: {"Connection-Id": "user-1"}.get(one.name, "jira") for one in operation.headers if one.required
    }
    sent = operation.example if operation.body is not None else None
    if operation.body is not None:
        headers["Content-Type"] = "application/json"
        sent = {} if sent is None else sent
    return [
        ("curl", _curl(method, url, headers, sent)),
        ("Python", _python(method, url, headers, sent)),
        ("Node", _node(method, url, headers, sent)),
    ]


def _curl(method: str, url: str, headers: Mapping[str, str], sent: Any) -> str:
    parts = ["curl" if method == "GET" else f"curl -X {method}"]
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if sent is not None:
        parts.append(f"-d {shlex.quote(json.dumps(sent, ensure_ascii=False))}")
    return " \\\n     ".join([*parts, shlex.quote(url)])


def _python(method: str, url: str, headers: Mapping[str, str], sent: Any) -> str:
    lines = ["import json", "import urllib.request", "", "request = urllib.request.Request(", f"    {url!r},"]
    lines += [f"    method={method!r},"] if method != "GET" else []
    if headers:
        lines += ["    headers={", *(f"        {name!r}: {value!r}," for name, value in headers.items()), "    },"]
    lines += [f"    data=json.dumps({sent!r}).encode(),"] if sent is not None else []
    return "\n".join(
        [*lines, ")", "with urllib.request.urlopen(request) as answer:", "    print(answer.status, answer.read())"]
    )


def _node(method: str, url: str, headers: Mapping[str, str], sent: Any) -> str:
    options: dict[str, Any] = {} if method == "GET" else {"method": method}
    options |= {"headers": dict(headers)} if headers else {}
    text = json.dumps(options, indent=2, ensure_ascii=False)
    if sent is not None:
        text = text.removesuffix("\n}") + f',\n  "body": JSON.stringify({json.dumps(sent, ensure_ascii=False)})\n}}'
    given = f", {text}" if options else ""
    return f"const answer = await fetch({json.dumps(url)}{given});\nconsole.log(answer.status, await answer.text());"

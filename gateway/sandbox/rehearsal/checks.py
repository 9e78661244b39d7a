"""What has to arrive, by the entry alone, held against what did. Nothing here asks the code that sends it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.catalog.interpolate import (
    BadValue,
    TemplateError,
    Unresolved,
    carries_credential,
    differs_each_time,
    needs_request,
    placeholders,
    render_text,
    render_url,
)
from gateway.catalog.places import Place, dotted
from gateway.catalog.provider import Provider
from gateway.sandbox.rehearsal.arrival import Arrival, decoded
from gateway.sandbox.rehearsal.stage import split

JSON_KIND: Final = "application/json"
FORM_KIND: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Check:
    """`place` is what the entry says of it, for a line; `detail` tells what came instead, where `ok` is False."""

    what: str
    ok: bool
    place: Place = ()
    detail: str = ""


@dataclass(slots=True)
class Known:
    """What templates may name, as far as a rehearsal knows it. `registered`: the client that registered itself."""

    provider: Provider
    config: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    registered: Mapping[str, str] = field(default_factory=dict)

    def text(self, template: str) -> str | None:
        """`template` filled in; None where it names what is not known, or differs each time."""
        if differs_each_time(template) or needs_request(template):
            return None
        defaults = {
            name: one.default_value for name, one in self.provider.connection_config.items() if one.default_value
        }
        config = {f"connectionConfig.{name}": value for name, value in {**defaults, **self.config}.items()}
        try:
            return render_text(template, {**config, **self.values})
        except (Unresolved, BadValue, TemplateError):
            return None

    def missing(self, template: str) -> list[str]:
        """Settings that `template` names, that have no value, and that no end user may leave empty."""
        forms = self.provider.connection_config
        named = [name.partition(".")[2] for name in placeholders(template) if name.startswith("connectionConfig.")]
        return [name for name in named if name not in self.config and not (name in forms and forms[name].optional)]

    def path(self, template: str) -> str | None:
        """The path of a played address."""
        try:
            url = render_url(template, self.config, self.provider.connection_config, self.values)
        except (Unresolved, BadValue, TemplateError):
            return None
        return split(url)[1].partition("?")[0]

    def deep(self, value: Any) -> Any:
        """A body of templates, filled in; what is not known is left out."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                filled = {name: self.deep(inner) for name, inner in value.items()}
                return {name: inner for name, inner in filled.items() if inner is not None}
            case list():
                return [inner for inner in map(self.deep, value) if inner is not None]
        return value


def equal(what: str, expected: Any, arrived: Any, place: Place) -> Check:
    """Secrets are never told: what differs is told by its length."""
    ok = expected == arrived
    detail = (
        ""
        if ok
        else "did not arrive"
        if arrived is None
        else f"arrived otherwise ({_kind(expected)}, not {_kind(arrived)})"
    )
    return Check(what, ok, place, detail)


def _kind(value: Any) -> str:
    return f"{len(value)} characters" if isinstance(value, str) else type(value).__name__


def params(
    arrival: Arrival, expected: Mapping[str, Any], place: Place, renames: Mapping[str, str], body_format: str | None
) -> Iterator[Check]:
    """Each of `expected`, under the provider's name for it, in the encoding the entry names."""
    arrived = arrival.params(body_format)
    if arrival.method not in {"GET", "HEAD"} and body_format != "query" and expected:
        kind = JSON_KIND if body_format == "json" else FORM_KIND
        yield Check(
            f"the body is {kind}", arrival.kind == kind, ("body_format",), f"it came as {arrival.kind or 'nothing'}"
        )
    for name, value in expected.items():
        spelt = renames.get(name, name)
        if not spelt:
            yield Check(f"{name} is left out", name not in arrived, (*place, name), "it came all the same")
            continue
        yield equal(f"parameter {spelt}", value, arrived.get(spelt), (*place, name))


def header_fields(arrival: Arrival, templates: Mapping[str, str], known: Known, place: Place) -> Iterator[Check]:
    """Each field that the entry writes; one that cannot be known beforehand only has to be there, filled in."""
    for name, template in templates.items():
        if name.lower() == "content-type" and not arrival.body:
            continue  # goes with a body only
        arrived = arrival.headers.get(name)
        expected = known.text(template)
        if expected is not None:
            yield equal(f"field {name}", expected, arrived, (*place, name))
        elif differs_each_time(template) or needs_request(template):
            # What comes from the request alone is rightly empty where the request has none of it, as ${params} is.
            filled = bool(arrived) or (arrived == "" and not differs_each_time(template))
            ok = filled and "${" not in str(arrived)
            yield Check(f"field {name} is filled in", ok, (*place, name), "it did not arrive whole")
        elif arrived is None and (missing := known.missing(template)):
            detail = f"nothing in a rehearsal fills {', '.join(missing)}; call with --set NAME=VALUE"
            yield Check(f"field {name} is filled in", False, (*place, name), detail)


def client_proof(
    arrival: Arrival, provider: Provider, client: tuple[str, str], renames: Mapping[str, str], default: str = "body"
) -> Iterator[Check]:
    """Exactly one proof of the client, where the entry says (RFC 6749 §2.3), under the names of `renames`.

    `default`: the method where the entry names none.
    """
    method = provider.token_request_auth_method or default
    place: Place = ("token_request_auth_method",)
    sent = arrival.params(provider.body_format)
    pair = arrival.basic()
    secret_name = renames.get("client_secret", "client_secret")
    if method == "basic":
        ok = pair is not None and tuple(map(decoded, pair)) == client
        yield Check("the client proves itself by Basic", ok, place, "Authorization does not hold it")
        yield Check("and not in the body too", secret_name not in sent, place, "client_secret is a parameter as well")
    elif method == "body":
        own = {renames.get("client_id", "client_id"): client[0], secret_name: client[1]}
        ok = all(sent.get(name) == value for name, value in own.items() if name)
        yield Check("the client proves itself by parameters", ok, place, "client_id and client_secret are not there")
        writes = any(name.lower() == "authorization" for name in provider.token_headers)
        yield Check("and not by Basic too", pair is None or writes, place, "Authorization came as well")
    elif method == "private_key_jwt":
        ok = bool(sent.get("client_assertion")) and secret_name not in sent
        yield Check("the client proves itself by a signed assertion", ok, place, "client_assertion is missing")
    elif method == "none":
        yield Check("the client sends no secret", secret_name not in sent and pair is None, place, "a secret came")


def registered_proof(arrival: Arrival, known: Known, renames: Mapping[str, str]) -> Iterator[Check]:
    """The proof of a client that registered itself: as it registered, and with its ID in the body, where servers made
    with the MCP Python SDK look for it.
    """
    client, provider = known.registered, known.provider
    spelled = {"client_secret_basic": "basic", "client_secret_post": "body", "none": "none"}
    method = spelled.get(client["token_endpoint_auth_method"], "body")
    pair = (client["client_id"], client.get("client_secret", ""))
    yield from client_proof(arrival, provider, pair, renames, method)
    name = renames.get("client_id", "client_id")
    sent = arrival.params(provider.body_format).get(name)
    yield equal(f"parameter {name}", client["client_id"], sent, ("token_request_auth_method",))


def proxied(
    arrival: Arrival, known: Known, entry: Mapping[str, Any], below: str, default: str | None
) -> Iterator[Check]:
    """A call of the API: where it went, and what the entry puts on it. `default`: the mode's own Authorization."""
    proxy = known.provider.proxy
    base = known.path(entry["proxy"]["base_url"])
    if base is not None:
        expected = base.rstrip("/") + below
        yield Check(
            "the path is below base_url", arrival.path == expected, ("proxy", "base_url"), f"it was {arrival.path}"
        )
    yield from header_fields(arrival, proxy.headers, known, ("proxy", "headers"))
    for name, template in proxy.query.items():
        value = known.text(template)
        if value is not None:
            yield equal(f"query {name}", value, arrival.query.get(name), ("proxy", "query", name))
        else:
            yield Check(f"query {name} is filled in", name in arrival.query, ("proxy", "query", name), "it is missing")
    placed = (*proxy.headers.values(), *proxy.query.values(), proxy.base_url)
    secret = {name for name, one in known.provider.connection_config.items() if one.secret}
    if default is not None and not any(carries_credential(one, secret_settings=secret) for one in placed[:-1]):
        arrived = arrival.headers.get("Authorization", "")
        ok = arrived.startswith(default) if default.endswith((" ", "/")) else arrived == default
        yield Check(f"Authorization is {default.partition(' ')[0]}", ok, ("auth_mode",), "another one came, or none")


def failed(checks: list[Check]) -> list[Check]:
    return [one for one in checks if not one.ok]


def shown_place(place: Place) -> str:
    return dotted(place) or "the entry"

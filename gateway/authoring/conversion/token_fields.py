"""Converts the fields of token requests and API calls that have another format in a gateway entry."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.authoring.conversion.notes import FallbackTemplates, Notes, Place, as_flag, as_list, as_text, is_flat
from gateway.catalog.provider_parts import Paginate

_RESPONSE: Final = {
    "token": "token_path",
    "token_path": "token_path",
    "refresh_token": "refresh_token_path",
    "refresh_token_path": "refresh_token_path",
    "token_expiration": "expiry_path",
    "expiry_path": "expiry_path",
}
_STRATEGIES: Final = {"expireIn": "duration", "expireAt": "timestamp", "duration": "duration", "timestamp": "timestamp"}
_STEP: Final = {
    "token_url": "url",
    "url": "url",
    "token_params": "params",
    "params": "params",
    "token_headers": "headers",
    "headers": "headers",
    "body_format": "body_format",
    "token_request_method": "method",
    "method": "method",
}
_JWT: Final = {
    "signing_key": "key",
    "key": "key",
    "private_key": "key",
    "header": "header",
    "headers": "header",
    "payload": "claims",
    "claims": "claims",
    "expires_in_ms": "lifetime_s",
    "lifetime_s": "lifetime_s",
    "secret_encoding": "key_encoding",
    "key_encoding": "key_encoding",
    "encoding": "key_encoding",
}
_SECRET_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
_ENCODINGS: Final = ("utf8", "hex", "base64")
NO_XML: Final = "token requests are form, json or query, never XML; use a proxy of your own for the token request"


def convert_text_map(source: Any, place: Place, notes: Notes, fallbacks: FallbackTemplates) -> dict[str, str]:
    """Return `source` as a mapping of names to templates. Nested values are reported as lost."""
    out: dict[str, str] = {}
    for name, value in source.items() if isinstance(source, Mapping) else ():
        at = (*place, name)
        if isinstance(value, Mapping | list):
            notes.add_lost(at, "has several texts")
        elif value is not None:
            out[str(name)] = fallbacks.text(as_text(value), at)
    return out


def convert_value(given: Any, place: Place, fallbacks: FallbackTemplates) -> Any:
    """Convert the templates of a JSON value, at any depth."""
    match given:
        case str():
            return fallbacks.text(given, place)
        case Mapping():
            return {str(name): convert_value(value, (*place, name), fallbacks) for name, value in given.items()}
        case list():
            return [convert_value(value, (*place, index), fallbacks) for index, value in enumerate(given)]
    return given


def convert_token_response(source: Any, place: Place, notes: Notes) -> dict[str, Any]:
    """Convert the paths in a token response."""
    out: dict[str, Any] = {}
    for key, value in source.items() if isinstance(source, Mapping) else ():
        at = (*place, key)
        if key in _RESPONSE:
            out[_RESPONSE[key]] = as_text(value)
        elif key in {"token_expiration_strategy", "expiry_kind"} and value in _STRATEGIES:
            out["expiry_kind"] = _STRATEGIES[value]
        else:
            notes.add_lost(at, f"token_response has no {key!r}")
    return out


def convert_steps(source: Any, place: Place, notes: Notes, fallbacks: FallbackTemplates) -> list[dict[str, Any]]:
    """Convert the requests that follow the token request."""
    out: list[dict[str, Any]] = []
    for index, step in enumerate(source if isinstance(source, list) else ()):
        call: dict[str, Any] = {}
        for key, value in step.items() if isinstance(step, Mapping) else ():
            at = (*place, index, key)
            ours = _STEP.get(key)
            if ours is None:
                notes.add_lost(at, f"a further request has no {key!r}")
            elif key == "body_format" and value == "xml":
                notes.add_refused(at, NO_XML)
            elif ours == "params" and not is_flat(value):
                call["body"] = convert_value(value, at, fallbacks)
            elif ours in {"params", "headers"}:
                call[ours] = convert_text_map(value, at, notes, fallbacks)
            else:
                call[ours] = as_text(value)
        out.append({"body_format": "json", **call} if "body" not in call else call)
    return out


def convert_jwt(source: Any, place: Place, notes: Notes) -> dict[str, Any] | None:
    """Convert the JWT that the auth mode signs. Return None if `source` has no key."""
    out: dict[str, Any] = {}
    for key, value in source.items() if isinstance(source, Mapping) else ():
        if key == "type" and str(value).lower() == "jwt":
            continue
        name = _JWT.get(key)
        if name is None or (name == "key_encoding" and value not in _ENCODINGS):
            notes.add_lost((*place, key), f"jwt has no {key!r} {value if name else ''}".rstrip())
        else:
            out[name] = _convert_member(name, key, value)
    if "key" not in out:
        notes.add_lost(place, "has no key to sign with")
        return None
    algorithm = out.setdefault("header", {}).setdefault("alg", "RS256")
    if algorithm in _SECRET_ALGORITHMS:
        out.setdefault("key_encoding", "hex")  # public catalogs have the default "hex"
    return out


def _convert_member(name: str, key: str, value: Any) -> Any:
    match name:
        case "key":
            return as_text((value.get("value") or value.get("key")) if isinstance(value, Mapping) else value)
        case "header":
            return {str(field): as_text(text) for field, text in value.items()}
        case "claims":
            return {
                field: text for field, text in value.items() if field not in {"iat", "exp"}
            }  # the mode sets both claims
        case "lifetime_s":
            return max(1, int(value) // 1000) if key == "expires_in_ms" else int(value)
    return as_text(value)


# ── API calls: ``proxy`` and its fields.

_NUMBERS: Final = frozenset({"offset_start_value"})
_RETRY: Final = {"after": as_list, "at": as_list, "error_code": as_list, "remaining": as_text}
_METHODS: Final = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE")
_GATEWAY_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"}
)


def convert_proxy(
    source: Mapping[str, Any], notes: Notes, fallbacks: FallbackTemplates, alternatives: dict[str, list[str]]
) -> dict[str, Any]:
    """Convert ``proxy`` except its ``connection_config``, which the caller converts.

    Alternative base URLs are added to `alternatives`.
    """
    out: dict[str, Any] = {}
    for key, value in source.items():
        at: Place = ("proxy", key)
        match key:
            case "base_url":
                out[key], before = fallbacks.url(as_text(value).rstrip("/"), at)
                if before:
                    alternatives["proxy.base_url"] = [url.rstrip("/") for url in before]
                    notes.add_changed(at, "'||' became alternatives.proxy.base_url")
            case "headers" | "query":
                out[key] = _convert_fields(key, convert_text_map(value, at, notes, fallbacks), notes)
            case "body":
                out[key] = convert_value(value, at, fallbacks)
            case "decompress":
                out[key] = as_flag(value)
            case "paginate" if isinstance(value, Mapping):
                out[key] = _convert_paginate(value, at, notes)
            case "retry" if isinstance(value, Mapping):
                out[key] = _convert_retry(value, at, notes)
            case "verification" if isinstance(value, Mapping):
                out[key] = _convert_verification(value, at, notes, fallbacks)
            case "connection_config":
                pass
            case "forward_headers_on_redirect":
                notes.add_lost(at, "redirects are returned to the caller, who follows them through /proxy")
            case _:
                notes.add_lost(at, f"proxy has no {key!r}")
    return {key: value for key, value in out.items() if value not in ({}, None)}


def _convert_fields(key: str, fields: dict[str, str], notes: Notes) -> dict[str, str]:
    kept: dict[str, str] = {}
    seen: set[str] = set()
    for name, template in fields.items():
        if key == "headers" and name.lower() in _GATEWAY_HEADERS:
            notes.add_lost(("proxy", key, name), f"{name} cannot be set by an entry: the gateway writes or drops it")
        elif key == "headers" and name.lower() in seen:
            notes.add_lost(("proxy", key, name), f"{name} is given twice, in different case")
        else:
            kept[name] = template
            seen.add(name.lower())
    return kept


def _convert_paginate(source: Mapping[str, Any], place: Place, notes: Notes) -> dict[str, Any] | None:
    if source.get("type") not in {"cursor", "link", "offset", "graphql"}:
        notes.add_lost(
            place, f"there is no pagination of type {source.get('type')!r}; there are cursor, link, offset and graphql"
        )
        return None
    out: dict[str, Any] = {}
    for key, value in source.items():
        if key not in Paginate.model_fields:
            notes.add_lost((*place, key), f"paginate has no {key!r}")
        elif key in _NUMBERS:
            out[key] = int(value)
        elif isinstance(value, bool):
            out[key] = value
        else:
            out[key] = as_text(value)
    return out


def _convert_retry(source: Mapping[str, Any], place: Place, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in source.items():
        if key in _RETRY:
            out[key] = _RETRY[key](value)
        elif key == "in_body":
            notes.add_lost((*place, key), "responses are streamed, so only header fields can say when to retry")
        else:
            notes.add_lost((*place, key), f"retry has no {key!r}")
    return out


def _convert_verification(
    source: Mapping[str, Any], place: Place, notes: Notes, fallbacks: FallbackTemplates
) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    for key, value in source.items():
        at = (*place, key)
        match key:
            case "method" if str(value).upper() in _METHODS:
                out[key] = str(value).upper()
            case "endpoints" | "endpoint":
                paths = [fallbacks.text(path, at) for path in as_list(value)]
                out["endpoints"] = [path if path.startswith("/") else f"/{path}" for path in paths]
            case "base_url_override":
                out[key], others = fallbacks.url(as_text(value).rstrip("/"), at)
                if others:
                    notes.add_lost(at, f"has no alternatives here; it is {out[key]!r} now")
            case "headers":
                out[key] = convert_text_map(value, at, notes, fallbacks)
            case "data":
                out[key] = convert_value(value, at, fallbacks)
            case "expect" if isinstance(value, Mapping):
                out[key] = dict(value)
            case _:
                notes.add_lost(at, f"verification has no {key!r}: {value!r}")
    if not out.get("endpoints"):
        notes.add_lost(place, "has no endpoint to call")
        return None
    return out

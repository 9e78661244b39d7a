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
    texts: dict[str, str] = {}
    for name, value in source.items() if isinstance(source, Mapping) else ():
        text_place = (*place, name)
        if isinstance(value, Mapping | list):
            notes.add_lost(text_place, "has several texts")
        elif value is not None:
            texts[str(name)] = fallbacks.text(as_text(value), text_place)
    return texts


def convert_value(source_value: Any, place: Place, fallbacks: FallbackTemplates) -> Any:
    """Convert the templates of a JSON value, at any depth."""
    match source_value:
        case str():
            return fallbacks.text(source_value, place)
        case Mapping():
            return {str(name): convert_value(value, (*place, name), fallbacks) for name, value in source_value.items()}
        case list():
            return [convert_value(value, (*place, index), fallbacks) for index, value in enumerate(source_value)]
    return source_value


def convert_token_response(source: Any, place: Place, notes: Notes) -> dict[str, Any]:
    """Convert the paths in a token response."""
    response: dict[str, Any] = {}
    for key, value in source.items() if isinstance(source, Mapping) else ():
        field_place = (*place, key)
        if key in _RESPONSE:
            response[_RESPONSE[key]] = as_text(value)
        elif key in {"token_expiration_strategy", "expiry_kind"} and value in _STRATEGIES:
            response["expiry_kind"] = _STRATEGIES[value]
        else:
            notes.add_lost(field_place, f"token_response has no {key!r}")
    return response


def convert_steps(source: Any, place: Place, notes: Notes, fallbacks: FallbackTemplates) -> list[dict[str, Any]]:
    """Convert the requests that follow the token request."""
    steps: list[dict[str, Any]] = []
    for index, step in enumerate(source if isinstance(source, list) else ()):
        call: dict[str, Any] = {}
        for key, value in step.items() if isinstance(step, Mapping) else ():
            field_place = (*place, index, key)
            gateway_field = _STEP.get(key)
            if gateway_field is None:
                notes.add_lost(field_place, f"a further request has no {key!r}")
            elif key == "body_format" and value == "xml":
                notes.add_refused(field_place, NO_XML)
            elif gateway_field == "params" and not is_flat(value):
                call["body"] = convert_value(value, field_place, fallbacks)
            elif gateway_field in {"params", "headers"}:
                call[gateway_field] = convert_text_map(value, field_place, notes, fallbacks)
            else:
                call[gateway_field] = as_text(value)
        steps.append({"body_format": "json", **call} if "body" not in call else call)
    return steps


def convert_jwt(source: Any, place: Place, notes: Notes) -> dict[str, Any] | None:
    """Convert the JWT that the auth mode signs. Return None if `source` has no key."""
    jwt: dict[str, Any] = {}
    for key, value in source.items() if isinstance(source, Mapping) else ():
        if key == "type" and str(value).lower() == "jwt":
            continue
        name = _JWT.get(key)
        if name is None or (name == "key_encoding" and value not in _ENCODINGS):
            notes.add_lost((*place, key), f"jwt has no {key!r} {value if name else ''}".rstrip())
        else:
            jwt[name] = _convert_member(name, key, value)
    if "key" not in jwt:
        notes.add_lost(place, "has no key to sign with")
        return None
    algorithm = jwt.setdefault("header", {}).setdefault("alg", "RS256")
    if algorithm in _SECRET_ALGORITHMS:
        jwt.setdefault("key_encoding", "hex")  # public catalogs have the default "hex"
    return jwt


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
    proxy: dict[str, Any] = {}
    for key, value in source.items():
        field_place: Place = ("proxy", key)
        match key:
            case "base_url":
                proxy[key], other_urls = fallbacks.url(as_text(value).rstrip("/"), field_place)
                if other_urls:
                    alternatives["proxy.base_url"] = [url.rstrip("/") for url in other_urls]
                    notes.add_changed(field_place, "'||' became alternatives.proxy.base_url")
            case "headers" | "query":
                proxy[key] = _convert_fields(key, convert_text_map(value, field_place, notes, fallbacks), notes)
            case "body":
                proxy[key] = convert_value(value, field_place, fallbacks)
            case "decompress":
                proxy[key] = as_flag(value)
            case "paginate" if isinstance(value, Mapping):
                proxy[key] = _convert_paginate(value, field_place, notes)
            case "retry" if isinstance(value, Mapping):
                proxy[key] = _convert_retry(value, field_place, notes)
            case "verification" if isinstance(value, Mapping):
                proxy[key] = _convert_verification(value, field_place, notes, fallbacks)
            case "connection_config":
                pass
            case "forward_headers_on_redirect":
                notes.add_lost(field_place, "redirects are returned to the caller, who follows them through /proxy")
            case _:
                notes.add_lost(field_place, f"proxy has no {key!r}")
    return {key: value for key, value in proxy.items() if value not in ({}, None)}


def _convert_fields(key: str, fields: dict[str, str], notes: Notes) -> dict[str, str]:
    kept_fields: dict[str, str] = {}
    seen_names: set[str] = set()
    for name, template in fields.items():
        if key == "headers" and name.lower() in _GATEWAY_HEADERS:
            notes.add_lost(("proxy", key, name), f"{name} cannot be set by an entry: the gateway writes or drops it")
        elif key == "headers" and name.lower() in seen_names:
            notes.add_lost(("proxy", key, name), f"{name} is given twice, in different case")
        else:
            kept_fields[name] = template
            seen_names.add(name.lower())
    return kept_fields


def _convert_paginate(source: Mapping[str, Any], place: Place, notes: Notes) -> dict[str, Any] | None:
    if source.get("type") not in {"cursor", "link", "offset", "graphql"}:
        notes.add_lost(
            place, f"there is no pagination of type {source.get('type')!r}; there are cursor, link, offset and graphql"
        )
        return None
    paginate: dict[str, Any] = {}
    for key, value in source.items():
        if key not in Paginate.model_fields:
            notes.add_lost((*place, key), f"paginate has no {key!r}")
        elif key in _NUMBERS:
            paginate[key] = int(value)
        elif isinstance(value, bool):
            paginate[key] = value
        else:
            paginate[key] = as_text(value)
    return paginate


def _convert_retry(source: Mapping[str, Any], place: Place, notes: Notes) -> dict[str, Any]:
    retry: dict[str, Any] = {}
    for key, value in source.items():
        if key in _RETRY:
            retry[key] = _RETRY[key](value)
        elif key == "in_body":
            notes.add_lost((*place, key), "responses are streamed, so only header fields can say when to retry")
        else:
            notes.add_lost((*place, key), f"retry has no {key!r}")
    return retry


def _convert_verification(
    source: Mapping[str, Any], place: Place, notes: Notes, fallbacks: FallbackTemplates
) -> dict[str, Any] | None:
    verification: dict[str, Any] = {}
    for key, value in source.items():
        field_place = (*place, key)
        match key:
            case "method" if str(value).upper() in _METHODS:
                verification[key] = str(value).upper()
            case "endpoints" | "endpoint":
                paths = [fallbacks.text(path, field_place) for path in as_list(value)]
                verification["endpoints"] = [path if path.startswith("/") else f"/{path}" for path in paths]
            case "base_url_override":
                verification[key], alternatives = fallbacks.url(as_text(value).rstrip("/"), field_place)
                if alternatives:
                    notes.add_lost(field_place, f"has no alternatives here; it is {verification[key]!r} now")
            case "headers":
                verification[key] = convert_text_map(value, field_place, notes, fallbacks)
            case "data":
                verification[key] = convert_value(value, field_place, fallbacks)
            case "expect" if isinstance(value, Mapping):
                verification[key] = dict(value)
            case _:
                notes.add_lost(field_place, f"verification has no {key!r}: {value!r}")
    if not verification.get("endpoints"):
        notes.add_lost(place, "has no endpoint to call")
        return None
    return verification

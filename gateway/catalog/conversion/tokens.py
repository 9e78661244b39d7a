"""How tokens are asked for and signed: the parts that are said in another way over there."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.catalog.conversion.either import Eithers
from gateway.catalog.conversion.notes import Notes, Place
from gateway.catalog.conversion.plain import as_text, is_flat

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
XML: Final = "our token requests are form, json or query; sign in by a script or a proxy of your own"


def text_map(given: Any, place: Place, notes: Notes, eithers: Eithers) -> dict[str, str]:
    """Names with templates; what holds more names is lost."""
    out: dict[str, str] = {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        at = (*place, name)
        if isinstance(value, Mapping | list):
            notes.lost(at, "holds more than one text")
        elif value is not None:
            out[str(name)] = eithers.text(as_text(value), at)
    return out


def deep(given: Any, place: Place, eithers: Eithers) -> Any:
    """Templates at any depth, in JSON."""
    match given:
        case str():
            return eithers.text(given, place)
        case Mapping():
            return {str(name): deep(value, (*place, name), eithers) for name, value in given.items()}
        case list():
            return [deep(value, (*place, index), eithers) for index, value in enumerate(given)]
    return given


def token_response(given: Any, place: Place, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in given.items() if isinstance(given, Mapping) else ():
        at = (*place, key)
        if key in _RESPONSE:
            out[_RESPONSE[key]] = as_text(value)
        elif key in {"token_expiration_strategy", "expiry_kind"} and value in _STRATEGIES:
            out["expiry_kind"] = _STRATEGIES[value]
        else:
            notes.lost(at, f"we read no {key!r} in a token answer")
    return out


def steps(given: Any, place: Place, notes: Notes, eithers: Eithers) -> list[dict[str, Any]]:
    """The requests after the token request."""
    out: list[dict[str, Any]] = []
    for index, step in enumerate(given if isinstance(given, list) else ()):
        one: dict[str, Any] = {}
        for key, value in step.items() if isinstance(step, Mapping) else ():
            at = (*place, index, key)
            ours = _STEP.get(key)
            if ours is None:
                notes.lost(at, f"a further request has no {key!r}")
            elif key == "body_format" and value == "xml":
                notes.refused(at, XML)
            elif ours == "params" and not is_flat(value):
                one["body"] = deep(value, at, eithers)
            elif ours in {"params", "headers"}:
                one[ours] = text_map(value, at, notes, eithers)
            else:
                one[ours] = as_text(value)
        out.append({"body_format": "json", **one} if "body" not in one else one)
    return out


def jwt(given: Any, place: Place, notes: Notes) -> dict[str, Any] | None:
    """What is signed, and with which key."""
    out: dict[str, Any] = {}
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if key == "type" and str(value).lower() == "jwt":
            continue
        name = _JWT.get(key)
        if name is None or (name == "key_encoding" and value not in _ENCODINGS):
            notes.lost((*place, key), f"a JWT that we sign has no {key!r} {value if name else ''}".rstrip())
        else:
            out[name] = _member(name, key, value)
    if "key" not in out:
        notes.lost(place, "names no key to sign with")
        return None
    algorithm = out.setdefault("header", {}).setdefault("alg", "RS256")
    if algorithm in _SECRET_ALGORITHMS:
        out.setdefault("key_encoding", "hex")  # what that catalog means where it says nothing
    return out


def _member(name: str, key: str, value: Any) -> Any:
    match name:
        case "key":
            return as_text((value.get("value") or value.get("key")) if isinstance(value, Mapping) else value)
        case "header":
            return {str(one): as_text(text) for one, text in value.items()}
        case "claims":
            return {one: text for one, text in value.items() if one not in {"iat", "exp"}}  # the mode sets these
        case "lifetime_s":
            return max(1, int(value) // 1000) if key == "expires_in_ms" else int(value)
    return as_text(value)

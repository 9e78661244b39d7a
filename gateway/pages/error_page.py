"""The page that says what went wrong and what the end user should do."""

import json
from collections.abc import Mapping
from typing import Final

from aiohttp import hdrs, web

from gateway.auth.provider_responses import safe_text
from gateway.authorization.results import CallbackFailed, error_type
from gateway.errors import ERROR_HEADER, Forbidden, GatewayError, Unauthorized
from gateway.middleware.facts import REQUEST_ID
from gateway.middleware.response_shape import CHALLENGE
from gateway.pages.connect_cookie import is_embedded
from gateway.pages.frame import PageWords, connect_page, opener_origins, words_for
from gateway.runtime import generation_of

PROVIDER_ERROR_FIELDS: Final = (
    "error",
    "error_description",
    "error_reason",
    "error_uri",
    "status_code",
    "error_message",
)

# The key of the text on the page for a link that no longer works, by error code.
_LINK_TEXTS: Final[Mapping[str, str]] = {"connect_session_used": "used", "connect_session_in_use": "other_browser"}


def failure_page(
    request: web.Request,
    fault: GatewayError,
    status: int = 400,
    *,
    words: PageWords | None = None,
    title: str | None = None,
    message: str | None = None,
    name: str | None = None,
    integration_id: str | None = None,
    back: str | None = None,
    done: str | None = None,
    posts_to_opener: bool = False,
    framed: bool = False,
    environment: str | None = None,
) -> web.Response:
    """Return the page that says what to do next, in the end user's language.

    Below, the page shows the error's message, code and request ID for support.

    - `title`, `message`: texts that replace the texts for `fault`; with `message`, the message of `fault` is hidden
    - `name`: the provider's display name
    - `back`: the link to try again
    - `done`: the link to the application
    - `posts_to_opener`: whether the page posts the failure to the window that opened the page
      (docs/compatibility.md#browser-sdk)
    - `framed`: whether registered origins may embed the page
    - `environment`: origins registered for this environment may receive the failure; None: origins registered for any
      environment
    """
    words = words or words_for(request)
    shown_message = message or fault.message
    response = connect_page(
        request,
        "connect/result.html",
        words,
        status,
        framed=framed,
        title=title or (words("failed_name", name=name) if name else words("failed_title")),
        message=message or advice(fault, words, name),
        detail=None if message else fault.message,
        success=False,
        facts=[(words("integration"), integration_id)] if integration_id and name is None else [],
        support_reference=support_reference(request, fault, words),
        back=back,
        back_label=words("again"),
        done=done,
        done_label=words("to_app", app=generation_of(request).config.branding.name or words.plain("the_app")),
        another=None,
        waits=False,
        opener_message="error" if posts_to_opener else None,
        payload={"message": _provider_error(request, fault) or shown_message, "errorType": error_type(fault)},
        opener_origins=opener_origins(request, fault.environment if isinstance(fault, CallbackFailed) else environment),
        event={"type": "error", "payload": {"errorType": error_type(fault), "errorMessage": shown_message}},
    )
    response.headers[ERROR_HEADER] = fault.code
    if fault.retry_after_s is not None:
        response.headers[hdrs.RETRY_AFTER] = str(fault.retry_after_s)
    if status in (401, 403):
        response.headers["WWW-Authenticate"] = CHALLENGE
    return response


def advice(fault: GatewayError, words: PageWords, name: str | None) -> str:
    """Return what the end user should do next. `name`: the provider's display name; None: the name is not known."""
    key = f"advice_{fault.code}"
    if not words.has(key) or (name is None and "{name}" in words.plain(key)):
        key = "advice_other"
    return words(key, name=name)


def advice_by_code(words: PageWords, name: str) -> dict[str, str]:
    """Return all advice texts by error code.

    The script of a page in a frame needs all texts, because a window tells the script only the code of an error.
    """
    return {key.removeprefix("advice_"): words(key, name=name) for key in words.keys("advice_")}


def support_reference(request: web.Request, fault: GatewayError, words: PageWords) -> str:
    """Return the line with the error code and the request ID, with which support finds the failure in the log."""
    return words("reference", code=fault.code, request=request[REQUEST_ID])


def dead_link_page(request: web.Request, fault: GatewayError, words: PageWords) -> web.Response:
    """Return the page for a link that does not work, which says in plain words what to do."""
    text_key = _LINK_TEXTS.get(fault.code)
    if text_key is not None:
        return failure_page(
            request,
            fault,
            fault.status,
            words=words,
            title=words(f"{text_key}_title"),
            message=words(text_key),
            framed=is_embedded(request),
        )
    is_forbidden = isinstance(fault, Forbidden) and fault.code == "forbidden"
    lost_cookie = isinstance(fault, Unauthorized) and "session_id" in request.match_info and not is_embedded(request)
    message = words("embedder" if is_forbidden else "expired")
    if lost_cookie and fault.code == "invalid_connect_session_token_format":
        message = f"{message} {words('cookies')}"
    if not isinstance(fault, Forbidden | Unauthorized):
        return failure_page(request, fault, fault.status, words=words, framed=is_embedded(request))
    return failure_page(
        request,
        fault,
        fault.status,
        words=words,
        title=words("embedder_title" if is_forbidden else "expired_title"),
        message=message,
        framed=is_embedded(request),
    )


def _provider_error(request: web.Request, fault: GatewayError) -> str | None:
    """Return the provider's error texts from the callback's query, as JSON.

    Return None if the query has no such texts, or if it is not certain that the provider sent the query.
    """
    if not isinstance(fault, CallbackFailed) or not fault.is_from_provider:
        return None
    query = request.query
    errors = {name: safe_text(query[name]) for name in PROVIDER_ERROR_FIELDS if query.get(name)}
    return json.dumps(errors, ensure_ascii=False) if errors else None

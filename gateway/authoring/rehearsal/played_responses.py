"""Builds the responses of the played provider: tokens and pages of lists, in the format that the entry describes."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gateway.authoring.rehearsal.samples import sample_value
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Paginate
from gateway.catalog.template import placeholders
from gateway.catalog.template_places import text_templates, url_templates

LIFETIME_S: Final = 3600
RECORDS: Final = 6
PAGE_SIZE: Final = 2
_URL_WORDS: Final = ("url", "uri", "domain", "host", "endpoint")


def token_response(provider: Provider, access_token: str, refresh_token: str, sandbox_origin: str) -> dict[str, Any]:
    """Return a token response in the format that the entry expects.

    `sandbox_origin`: for settings that are a whole URL.
    """
    response = provider.token_response
    token_members: dict[str, Any] = {}
    if provider.auth_mode == "BILL":
        return {"response_data": {"sessionId": access_token, "userId": "user-1"}}
    default_path = "token" if provider.auth_mode == "APP" else "access_token"
    path = (response and response.token_path) or default_path
    container_path = provider.alternate_access_token_response_path
    put_value(token_members, f"{container_path}.access_token" if container_path else path, access_token)
    container_prefix = f"{container_path}." if container_path else ""
    if not (provider.refresh and provider.refresh.by_access_token):
        put_value(
            token_members,
            (response and response.refresh_token_path) or f"{container_prefix}refresh_token",
            refresh_token,
        )
    put_value(token_members, *_expiry(provider, container_prefix))
    token_members.setdefault("token_type", "Bearer")
    for name in provider.token_response_metadata or ():
        put_value(token_members, name, sample_setting(provider, name, sandbox_origin), keep=True)
    for name in _raw_names(provider):
        put_value(token_members, name, access_token if name in {"token", "access_token"} else "raw-1", keep=True)
    return token_members


def _expiry(provider: Provider, container_prefix: str) -> tuple[str, Any]:
    response = provider.token_response
    path = (response and response.expiry_path) or f"{container_prefix}expires_in"
    if provider.auth_mode == "APP":
        return "expires_at", (datetime.now(UTC) + timedelta(seconds=LIFETIME_S)).isoformat()
    if response is not None and response.expiry_kind == "timestamp":
        return path, int(datetime.now(UTC).timestamp()) + LIFETIME_S
    return path, LIFETIME_S * (1000 if provider.expires_in_unit == "milliseconds" else 1)


def sample_setting(provider: Provider, name: str, sandbox_origin: str, key: str = "token_response_metadata") -> str:
    """Return a valid value for the setting `name`, as the provider would return the setting. Raises NoSample.

    `sandbox_origin`: for settings that are a URL. `key`: the entry's field that names the setting.
    """
    setting = provider.connection_config.get(name)
    if setting is None:
        last_word = name.rpartition(".")[2].lower()
        return sandbox_origin if any(word in last_word for word in _URL_WORDS) else "captured1"
    if setting.format == "uri" and setting.pattern is None:
        return sandbox_origin
    return sample_value((key,), name, setting)


def _raw_names(provider: Provider) -> Iterator[str]:
    """Yield the members of the response that templates use as ``${credentials.raw.…}``."""
    for _, template in (*url_templates(provider), *text_templates(provider)):
        for name in placeholders(template):
            if name.startswith("credentials.raw."):
                yield name.removeprefix("credentials.raw.")


def step_response(provider: Provider, number: int, base: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the values that later requests take from the response to step `number`."""
    for _, template in (*url_templates(provider), *text_templates(provider)):
        for name in placeholders(template):
            step, _, path = name.partition(".")
            if step == f"step{number}":
                put_value(base, path, f"step-{secrets.token_hex(4)}", keep=True)
    return base


def put_value(target: dict[str, Any], path: str, value: Any, *, keep: bool = False) -> None:
    """Put `value` into `target` at a dotted path. Numbers in the path are array indices.

    `keep`: whether to keep an existing value at this path.
    """
    steps = path.split(".")
    parent: Any = target
    for step, next_step in zip(steps, [*steps[1:], ""], strict=True):
        new_value: Any = value if not next_step else [] if _is_index(next_step) else {}
        if isinstance(parent, list):
            if not parent:
                parent.append(new_value)
            elif not next_step and not keep:
                parent[-1] = value
            parent = parent[-1]
        else:
            if (step not in parent) or (not next_step and not keep):
                parent[step] = new_value
            parent = parent[step]
        if not isinstance(parent, dict | list):
            return


def _is_index(step: str) -> bool:
    return step.lstrip("-").isdigit()


def list_page(scheme: Paginate, query: dict[str, str], url: str) -> tuple[Any, dict[str, str]]:
    """Return one page of a list of `RECORDS` records, and its header fields.

    `url`: the list's URL without its query.
    """
    start = _page_start(scheme, query)
    records = [{"id": f"r{number}"} for number in range(start, min(start + PAGE_SIZE, RECORDS))]
    has_more = start + PAGE_SIZE < RECORDS
    body: Any = records
    if scheme.response_path:
        body = {}
        put_value(body, scheme.response_path, records)
    elif (
        (scheme.cursor_path_in_response or "-1").partition(".")[0] != "-1"
        or scheme.link_path_in_response_body
        or scheme.has_more_path_in_response
    ):
        body = {"items": records}
    if scheme.has_more_path_in_response:
        put_value(body, scheme.has_more_path_in_response, has_more)
    if scheme.type == "cursor" and scheme.cursor_path_in_response:
        _put_cursor(body, scheme.cursor_path_in_response, f"c{start + PAGE_SIZE}" if has_more else None)
    link = f"{url}?after={start + PAGE_SIZE}"
    if scheme.type == "link" and has_more and scheme.link_path_in_response_body:
        put_value(body, scheme.link_path_in_response_body, link)
    if scheme.type == "link" and has_more and scheme.link_rel_in_response_header:
        return body, {"Link": f'<{link}>; rel="{scheme.link_rel_in_response_header}"'}
    return body, {}


def _put_cursor(body: Any, path: str, cursor: str | None) -> None:
    """Put the cursor into `body` at `path`.

    If `path` names a member of the last record, do nothing: this member of the record is the cursor.
    """
    if isinstance(body, dict) and "-1" not in path.split("."):
        put_value(body, path, cursor)


def _page_start(scheme: Paginate, query: dict[str, str]) -> int:
    if scheme.type == "link":
        return int(query.get("after", 0))
    if scheme.type == "offset":
        first_offset = scheme.offset_start_value or 0
        offset = int(query.get(scheme.offset_name_in_request or "", first_offset)) - first_offset
        return offset * PAGE_SIZE if scheme.offset_calculation_method == "per-page" else offset
    cursor = query.get(scheme.cursor_name_in_request or "", "")
    if cursor.startswith("c"):
        return int(cursor[1:])
    return int(cursor[1:]) + 1 if cursor.startswith("r") else 0  # the cursor is the id of the last record

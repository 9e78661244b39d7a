"""Reads a typed or imported credential and reports all its errors together."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gateway.catalog.auth_modes import CLIENT_PLACEHOLDERS
from gateway.catalog.provider_parts import Setting
from gateway.catalog.value import BadValue, check_value, flat_values
from gateway.errors import MAX_ISSUES, InvalidRequest, Issue, joined_issues
from gateway.oauth.token_responses import MAX_LIFETIME, dig, positive_seconds
from gateway.secret import Secret
from gateway.text import did_you_mean
from gateway.timestamps import parse_time

# ── The members of a credential under the names that templates use.


def member_values(credential: Mapping[str, Any], unprefixed_names: Iterable[str] = ()) -> dict[str, Secret]:
    """Return every text and number in `credential`, at any depth, as ``credentials.name``. Members in `unprefixed_names`
    are also returned without the prefix."""
    secret_by_name = {name: Secret(text) for name, text in flat_values(credential).items() if name != "type"}
    values = {f"credentials.{name}": secret for name, secret in secret_by_name.items()}
    return values | {name: secret_by_name[name] for name in unprefixed_names if name in secret_by_name}


def typed_values(credential: Mapping[str, Any], token: str | None = None) -> dict[str, Secret]:
    """Return the values of `token_values`, plus every top-level text of `credential` without the prefix, because
    entries use the names without the prefix.

    The client's ID and secret are left out, because in most modes these names mean the integration's client.
    """
    texts = (name for name, value in credential.items() if isinstance(value, str) and name not in CLIENT_PLACEHOLDERS)
    return token_values(credential, token, texts)


def token_values(
    credential: Mapping[str, Any], token: str | None, unprefixed_names: Iterable[str] = ()
) -> dict[str, Secret]:
    """Return the values of `member_values`. If there is a `token`, also return it as ``accessToken`` and
    ``access_token``."""
    values = member_values(credential, unprefixed_names)
    if token:
        values["accessToken"] = values["access_token"] = Secret(token)
    return values


MAX_TYPED_CHARS: Final = 16_384  # maximum length of a field that a person types or pastes, such as a key in PEM


class CredentialForm:
    """Reads the fields of a JSON object. Each method records the field that it reads, and any error. `finish` raises
    all errors together."""

    def __init__(self, fields: Mapping[str, Any], types: Sequence[str], path: Sequence[str] = ("credentials",)) -> None:
        """Begin to read `fields`. `types`: the allowed values of the member ``type``. `path`: the place of the fields in the
        request's body, for error messages."""
        self._fields = fields
        self._path = tuple(path)
        self._read_names = {"type"}
        self._issues: list[Issue] = []
        kind = fields.get("type")
        if kind not in types:
            self._fault("type", "invalid_type", f"This integration's provider takes credentials of type '{types[0]}'.")

    def text(self, name: str, *, limit: int, required: bool = True, empty: bool = False) -> str:
        """Return a field of at most `limit` characters. If `required` is true, a missing field is an error. An empty
        field is then also an error, unless `empty` is true."""
        self._read_names.add(name)
        return self._text(name, self._fields.get(name), limit, required=required, empty=empty)

    def _text(self, name: str, value: object, limit: int, *, required: bool, empty: bool) -> str:
        if value is None:
            if required:
                self._fault(name, "invalid_type", f"'{name}' is missing.")
            return ""
        if not isinstance(value, str):
            self._fault(name, "invalid_type", f"'{name}' must be text.")
            return ""
        if required and not value and not empty:
            self._fault(name, "too_small", f"'{name}' must not be empty.")
        if len(value) > limit:
            self._fault(name, "too_big", f"'{name}' may have at most {limit} characters.")
        return value

    def token(self, name: str, *, limit: int, required: bool = True) -> str:
        """Return a text that is valid in a header: visible ASCII and inner spaces only (RFC 6749 §A.12)."""
        value = self.text(name, limit=limit, required=required)
        if value and not value.strip() and required:
            self._fault(name, "too_small", f"'{name}' must not be empty.")
        value = value.strip()
        if value and not (value.isascii() and value.isprintable()):
            self._fault(name, "invalid_format", f"'{name}' has characters that are not allowed in a header.")
        return value

    def read_declared_field(self, name: str, setting: Setting, *, limit: int = MAX_TYPED_CHARS) -> Any:
        """Return a field that the entry declares: a text that matches its setting, or the setting's default if the
        field is absent.

        A dot in `name` is either part of the field's name or a path into an object. If the setting has no pattern, the
        text may contain line breaks, because PEM keys contain line breaks.
        """
        self._read_names |= {name, name.partition(".")[0]}
        value = dig(dict(self._fields), name)
        if value in (None, ""):
            if setting.default_value is None and not setting.optional and not setting.automated:
                self._fault(name, "invalid_type", f"'{name}' ({setting.title}) is missing.")
            return setting.default_value
        text = self._text(name, value, limit, required=True, empty=False)
        if setting.pattern is not None or setting.enum is not None or setting.format is not None:
            try:
                check_value(name, text, setting)
            except BadValue as fault:
                self._fault(name, "invalid_format", f"'{name}' {fault.why}.")
        return text

    def read_other_declared_fields(self, settings: Mapping[str, Setting]) -> dict[str, Any]:
        """Return the fields that the entry declares and that no other method has read yet."""
        other_settings = {name: setting for name, setting in settings.items() if name not in self._read_names}
        values = {name: self.read_declared_field(name, setting) for name, setting in other_settings.items()}
        return {name: value for name, value in values.items() if value is not None}

    def fault(self, name: str, message: str) -> None:
        """Record an error that the caller found in a field."""
        self._fault(name, "invalid_format", message)

    def moment(self, name: str) -> datetime | None:
        """Return a time that is given as ISO 8601, epoch seconds or epoch milliseconds. Return None if the field is
        absent."""
        self._read_names.add(name)
        value = self._fields.get(name)
        if value is None:
            return None
        number = positive_seconds(value) if isinstance(value, int | float) else None
        if number is not None and number < 1e14:
            return datetime.fromtimestamp(number / 1000 if number > 1e11 else number, UTC)
        time = parse_time(value)
        if time is None:
            self._fault(name, "invalid_format", f"'{name}' must be a time such as 2026-01-31T12:00:00Z.")
        return time

    def lifetime(self, name: str, now: datetime) -> datetime | None:
        """Return `now` plus the field's number of seconds. Return None if the field is not a positive number."""
        self._read_names.add(name)
        seconds = positive_seconds(self._fields.get(name))
        return None if seconds is None else now + min(timedelta(seconds=min(seconds, 1e9)), MAX_LIFETIME)

    def mapping(self, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Return a field that is an object of texts. A key that is not in `keys` is an error. Return an empty object if
        the field is absent."""
        self._read_names.add(name)
        value = self._fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            self._fault(name, "invalid_type", f"'{name}' must be an object with text values.")
            return {}
        if unknown_names := set(value) - set(keys):
            self._fault(name, "unrecognized_keys", f"'{name}' has unknown members: {', '.join(sorted(unknown_names))}.")
        return {key: value[key] for key in keys if value.get(key)}

    def finish(self, *ignored: str) -> None:
        """Raise InvalidRequest if any field was invalid or unknown. `ignored`: names of fields that are allowed but not
        read."""
        for name in self._fields:
            if len(self._issues) >= MAX_ISSUES:
                break
            if name not in self._read_names and name not in ignored:
                hint = did_you_mean(name, sorted(self._read_names - self._fields.keys())) or "."
                self._fault(name, "unrecognized_keys", f"'{name}' is not a field of these credentials{hint}")
        if self._issues:
            raise InvalidRequest("invalid_body", joined_issues(self._issues), errors=self._issues)

    def _fault(self, name: str, code: str, message: str) -> None:
        self._issues.append(Issue(code, message, (*self._path, name)))

"""Parses the template language, which is text with ``${…}``, and defines its functions and time formats.

    ${connectionConfig.x} ${metadata.x} ${credentials.x}     values of the connection
    ${apiKey} ${username} ${accessToken} ${clientId} …       values that the auth mode provides
    ${assertionOption.x} ${step1.x}                          values of a token request with several steps
    ${callback.x}                                            a parameter of the callback, when its code is exchanged
    ${method} ${host} ${path} …                              parts of the final request, in header and query templates
    ${now} ${now:FORMAT} ${now+7:days:FORMAT} ${random}      one time and one UUID per request
    ${base64(…)} ${sha256Hex(…)} ${hmacSha1Hex(message, key)}  functions; their arguments are templates

Inserted values are not parsed again, so a value that contains ``${…}`` stays unchanged.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gateway.private_keys import private_key_in

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

# ── The functions of the template language. Arguments and results are text.


class BadArgument(ValueError):
    """A function does not accept its last argument. The message says what is accepted and never contains the value."""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256_base64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _hmac_sha1_hex(message: str, key: str) -> str:
    # Some older providers require HMAC-SHA1. HMAC does not depend on collision resistance, which SHA-1 has lost.
    return hmac.new(key.encode(), message.encode(), hashlib.sha1).hexdigest()


def _hmac_sha256_hex(message: str, key: str) -> str:
    return hmac.new(key.encode(), message.encode(), hashlib.sha256).hexdigest()


def _hmac_sha256_base64(message: str, key: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), message.encode(), hashlib.sha256).digest()).decode()


def _fingerprint(pem: str) -> str:
    """Return ``SHA256:`` and the digest of the public key (its SubjectPublicKeyInfo, RFC 5280 §4.1.2.7) in base64.

    `pem` is the private or the public key. Snowflake identifies keys this way.
    """
    # Lazy import: cryptography loads slower than this whole package, and few entries need it.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    if "PRIVATE KEY" in pem:
        public_key = _private_key(pem).public_key()
    else:
        try:
            public_key = load_pem_public_key(pem.encode())
        except (ValueError, UnsupportedAlgorithm):
            raise BadArgument("must be a key in PEM") from None
    digest = hashlib.sha256(public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return f"SHA256:{base64.b64encode(digest).decode()}"


def _ed25519_sign(message: str, pem: str) -> str:
    """Return the Ed25519 signature of `message` (RFC 8032) in base64. `pem`: the private key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = _private_key(pem)
    if not isinstance(key, Ed25519PrivateKey):
        raise BadArgument("must be an Ed25519 private key in PEM")
    return base64.b64encode(key.sign(message.encode())).decode()


def _private_key(pem: str) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return private_key_in(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadArgument("must be a private key in PEM, without a password") from None


FUNCTIONS: Final[dict[str, Callable[..., str]]] = {
    "base64": _base64,
    "sha256Hex": _sha256_hex,
    "sha256Base64": _sha256_base64,
    "hmacSha1Hex": _hmac_sha1_hex,
    "hmacSha256Hex": _hmac_sha256_hex,
    "hmacSha256Base64": _hmac_sha256_base64,
    "fingerprint": _fingerprint,
    "ed25519Sign": _ed25519_sign,
}

ARITY: Final = {"base64": 1, "sha256Hex": 1, "sha256Base64": 1, "fingerprint": 1} | dict.fromkeys(
    ("hmacSha1Hex", "hmacSha256Hex", "hmacSha256Base64", "ed25519Sign"), 2
)


# ── ``${now:FORMAT}``: the time of the request. FORMAT has tokens such as YYYY-MM-DD, HH:mm:ss or X, which authors of
# entries know.

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# The units of ``${now+7:days}``, in seconds. Months and years are left out, because their length depends on the date.
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
UNITS: Final = _SECONDS | {f"{unit}s": seconds for unit, seconds in _SECONDS.items()}
MAX_SHIFT_S: Final = 100 * 365 * 86400  # the limit prevents times after the year 9999, which `datetime` cannot have

_TOKEN = re.compile(r"\[([^\]]*)\]|YYYY|YY|M{1,4}|D{1,2}|d{1,4}|H{1,2}|h{1,2}|a|A|m{1,2}|s{1,2}|SSS|ZZ|Z|X|x")

# The names of days and months are English in every locale, because providers parse them.
_WRITERS: Final[dict[str, Callable[[datetime], str]]] = {
    "YYYY": lambda at: f"{at.year:04}",
    "YY": lambda at: f"{at.year % 100:02}",
    "MMMM": lambda at: MONTHS[at.month - 1],
    "MMM": lambda at: MONTHS[at.month - 1][:3],
    "MM": lambda at: f"{at.month:02}",
    "M": lambda at: str(at.month),
    "DD": lambda at: f"{at.day:02}",
    "D": lambda at: str(at.day),
    "dddd": lambda at: DAYS[at.weekday()],
    "ddd": lambda at: DAYS[at.weekday()][:3],
    "dd": lambda at: DAYS[at.weekday()][:2],
    "d": lambda at: str(at.isoweekday() % 7),
    "HH": lambda at: f"{at.hour:02}",
    "H": lambda at: str(at.hour),
    "hh": lambda at: f"{at.hour % 12 or 12:02}",
    "h": lambda at: str(at.hour % 12 or 12),
    "a": lambda at: "am" if at.hour < 12 else "pm",
    "A": lambda at: "AM" if at.hour < 12 else "PM",
    "mm": lambda at: f"{at.minute:02}",
    "m": lambda at: str(at.minute),
    "ss": lambda at: f"{at.second:02}",
    "s": lambda at: str(at.second),
    "SSS": lambda at: f"{at.microsecond // 1000:03}",
    "ZZ": lambda _at: "+0000",
    "Z": lambda _at: "+00:00",
    "X": lambda at: str(int(at.timestamp())),
    "x": lambda at: str(int(at.timestamp()) * 1000 + at.microsecond // 1000),
}


def write_time(moment: datetime, format_: str | None) -> str:
    """Return the time `moment`, which must have a time zone, as text in UTC.

    `format_`: the format, in which ``[text]`` is literal text; None: ISO 8601 with milliseconds.
    """
    moment = moment.astimezone(UTC)
    if format_ is None:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
    return _TOKEN.sub(lambda match: _token(match, moment), format_)


def unknown_letters(format_: str) -> list[str]:
    """Return the letters in a time format that are neither a token nor in ``[ ]``."""
    return re.findall(r"[A-Za-z]+", _TOKEN.sub(" ", format_))


def _token(match: re.Match[str], moment: datetime) -> str:
    if match[1] is not None:
        return match[1]
    return _WRITERS[match[0]](moment) if match[0] in _WRITERS else match[0]


NAMESPACES: Final = ("connectionConfig", "metadata", "credentials", "assertionOption", "callback", "stepN")
MAX_DEPTH: Final = 8

_CALL = re.compile(r"([A-Za-z][A-Za-z0-9]*)\(")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_STEP = re.compile(r"step[1-9]")
_NOW = re.compile(r"now(?:(?P<shift>[+-]\d{1,6}):(?P<unit>[a-z]+))?(?::(?P<format>.+))?", re.DOTALL)


class TemplateError(ValueError):
    """The text is not a valid template. The message says why."""


@dataclass(frozen=True, slots=True)
class Name:
    """A placeholder for a value that the caller provides."""

    name: str


@dataclass(frozen=True, slots=True)
class Now:
    """A placeholder for the time of the request, shifted by `shift_s` seconds.

    `format`: the format of the time; None: ISO 8601 in UTC with milliseconds.
    """

    shift_s: int = 0
    format: str | None = None

    def time_at(self, moment: datetime) -> datetime:
        """Return the time for this placeholder in a request made at `moment`."""
        return moment + timedelta(seconds=self.shift_s)


@dataclass(frozen=True, slots=True)
class Random:
    """A placeholder for a random UUID, which is the same for all templates of a request."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function in `FUNCTIONS`. The arguments are templates."""

    function: str
    arguments: tuple["Template", ...]


Part = str | Name | Now | Random | FunctionCall


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. `parts`: literal texts and placeholders, in order."""

    parts: tuple[Part, ...]

    def names(self) -> Iterator[str]:
        """Yield the names of all values that the template needs, including names in function arguments."""
        for part in self.parts:
            match part:
                case Name(name):
                    yield name
                case FunctionCall(_, arguments):
                    for argument in arguments:
                        yield from argument.names()

    def times(self) -> Iterator[Now]:
        """Yield all ``${now}`` placeholders of the template, including placeholders in function arguments."""
        for part in self.parts:
            match part:
                case Now():
                    yield part
                case FunctionCall(_, arguments):
                    for argument in arguments:
                        yield from argument.times()


@lru_cache(maxsize=8192)
def parse_template(text: str) -> Template:
    """Parse `text`. Raises TemplateError."""
    parts, _ = _parse_parts(text, 0, call=None, depth=0)
    return Template(parts)


def placeholders(template: str) -> frozenset[str]:
    """Return the names of the values that `template` needs, such as ``connectionConfig.cloudId``.

    Raises TemplateError.
    """
    return frozenset(parse_template(template).names())


def _parse_parts(text: str, position: int, *, call: str | None, depth: int) -> tuple[tuple[Part, ...], int]:
    """Parse `text` from position `position`. Return the parts and the position after the last part.

    `call`: the function whose arguments are parsed, up to the closing ``)}``; None: `text` is parsed to the end.
    `depth`: the number of functions around this position.
    """
    if depth > MAX_DEPTH:
        raise TemplateError(f"functions are nested more than {MAX_DEPTH} levels deep")
    parts: list[Part] = []
    start = position
    while position < len(text):
        closes = call is not None and text.startswith(")}", position)
        if not closes and not text.startswith("${", position):
            position += 1
            continue
        if position > start:
            parts.append(text[start:position])
        if closes:
            return tuple(parts), position + 2
        part, position = _parse_placeholder(text, position + 2, depth)
        parts.append(part)
        start = position
    if call is not None:
        raise TemplateError(f"'${{{call}(' is not closed; end it with ')}}'")
    if position > start:
        parts.append(text[start:position])
    return tuple(parts), position


def _parse_placeholder(text: str, position: int, depth: int) -> tuple[Part, int]:
    """Parse the placeholder whose content starts at `position`. Return the placeholder and the position after it."""
    if call_match := _CALL.match(text, position):
        function = call_match[1]
        if function not in ARITY:
            raise TemplateError(f"unknown function {function!r}; use one of {', '.join(sorted(ARITY))}")
        parts, position = _parse_parts(text, call_match.end(), call=function, depth=depth + 1)
        return FunctionCall(function, _arguments(function, parts)), position
    end = text.find("}", position)
    if end < 0:
        raise TemplateError("'${' is not closed; end it with '}'")
    return _parse_value(text[position:end]), end + 1


def _parse_value(content: str) -> Part:
    if content == "random":
        return Random()
    if now_match := _NOW.fullmatch(content):
        unit = str(now_match["unit"] or "second")
        if unit not in UNITS:
            raise TemplateError(f"'${{{content}}}': {unit!r} is not a unit; use one of {', '.join(UNITS)}")
        shift_s = int(now_match["shift"] or 0) * UNITS[unit]
        if abs(shift_s) > MAX_SHIFT_S:
            raise TemplateError(f"'${{{content}}}' shifts the time by more than 100 years")
        return Now(shift_s, now_match["format"])
    if not _NAME.fullmatch(content):
        raise TemplateError(f"'${{{content}}}' is not a placeholder; write a name such as ${{connectionConfig.site}}")
    namespace, dot, _ = content.partition(".")
    if dot and namespace not in NAMESPACES and not _STEP.fullmatch(namespace):
        raise TemplateError(f"'${{{content}}}': unknown name {namespace!r}; use one of {', '.join(NAMESPACES)}")
    return Name(content)


def _arguments(function: str, parts: tuple[Part, ...]) -> tuple[Template, ...]:
    """Return the arguments of `function`: one template, or two templates, split at the last comma in literal text."""
    if ARITY[function] == 1:
        return (Template(parts),)
    for index in range(len(parts) - 1, -1, -1):
        part = parts[index]
        if isinstance(part, str) and "," in part:
            before_comma, _, after_comma = part.rpartition(",")
            first_parts = (*parts[:index], before_comma.rstrip()) if before_comma.rstrip() else parts[:index]
            second_parts = (after_comma.lstrip(), *parts[index + 1 :]) if after_comma.lstrip() else parts[index + 1 :]
            return Template(first_parts), Template(second_parts)
    raise TemplateError(f"{function} takes two arguments: '${{{function}(message, key)}}'")

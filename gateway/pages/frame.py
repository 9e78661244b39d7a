"""What all pages for end users share: texts, language, files, brand, and the origins that may embed the pages."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiohttp import hdrs, web

from gateway import resources
from gateway.authorization.trusted_pages import is_registered, trusts_loopback
from gateway.errors import NotFound
from gateway.generation import Generation
from gateway.origin import DEFAULT_PORTS
from gateway.pages.templates import page
from gateway.runtime import generation_of

# ── The texts of pages for end users, in the languages of `templates/connect/words/`; English is the fallback for
# missing texts.

LANGUAGES: Final = ("en", "de", "fr", "es", "ja")


class PageWords:
    """The texts in one language. Calling the object with a key returns a sentence.

    `is_chosen`: whether the URL names the language, so that links keep it; otherwise it comes from Accept-Language.
    """

    def __init__(self, lang: str, *, is_chosen: bool = False) -> None:
        self.lang = lang
        self.is_chosen = is_chosen
        self._words = _read_words(lang)

    def __call__(self, key: str, **values: Any) -> str:
        """Return the sentence `key` with `values` filled in and a capital first letter.

        Raises KeyError if `key` is unknown.
        """
        text = (self._words.get(key) or _read_words(LANGUAGES[0])[key]).format_map(values)
        return text[:1].upper() + text[1:]

    def plain(self, key: str) -> str:
        """Return the text `key` unchanged, for use in another sentence. Raises KeyError if `key` is unknown."""
        return self._words.get(key) or _read_words(LANGUAGES[0])[key]

    def has(self, key: str) -> bool:
        return key in _read_words(LANGUAGES[0])

    def keys(self, prefix: str) -> list[str]:
        return [key for key in _read_words(LANGUAGES[0]) if key.startswith(prefix)]


def words_for(request: web.Request, lang: str | None = None) -> PageWords:
    """Return the texts in the language of the request.

    The first available language is used: `lang`, then the query parameter ``lang``, then the preferred language of
    Accept-Language (RFC 9110 §12.5.4), then English.
    """
    for requested in (lang, request.query.get("lang")):
        if requested and (language := _available_language(requested)):
            return PageWords(language, is_chosen=True)
    return PageWords(accepted_language(request.headers.get(hdrs.ACCEPT_LANGUAGE, "")))


def accepted_language(field: str) -> str:
    """Return the available language that an Accept-Language field prefers; English if none of its languages exists."""
    candidates: list[tuple[float, int, str]] = []
    for position, part in enumerate(field[:500].split(",")):
        tag, _, parameter = part.partition(";")
        try:
            weight = float(parameter.strip().removeprefix("q=")) if parameter.strip() else 1.0
        except ValueError:
            continue
        if weight > 0 and (language := _available_language(tag.strip())):
            candidates.append((-weight, position, language))
    return min(candidates)[2] if candidates else LANGUAGES[0]


def _available_language(tag: str) -> str | None:
    language = tag.lower().replace("_", "-").partition("-")[0]
    return language if language in LANGUAGES else None


@cache
def _read_words(lang: str) -> Mapping[str, str]:
    import yaml

    path = resources.folder("templates") / "connect" / "words" / f"{lang}.yaml"
    words: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return words


# ── The files that pages load. The paths of files come from a fixed table, never from a request.

ASSET_TYPES: Final = {"connect.css": "text/css", "connect.js": "text/javascript", "icon.svg": "image/svg+xml"}
IMAGE_TYPES: Final = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
LOGO: Final = "logo"


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file that pages load. `content_hash`: the first 16 hex digits of the SHA-256 of its content."""

    content: bytes
    content_hash: str


async def asset(request: web.Request) -> web.Response:
    """Serve ``GET /connect/assets/{name}``. Raises NotFound."""
    name = request.match_info["name"]
    logo = generation_of(request).config.branding.logo
    if name in ASSET_TYPES:
        file, media_type = asset_file(name), ASSET_TYPES[name]
    elif name == LOGO and logo is not None:
        file, media_type = _image(logo), IMAGE_TYPES[logo.suffix.lower()]
    else:
        raise NotFound("not_found", "There is no such file.")
    return file_response(request, file, media_type)


def file_response(request: web.Request, file: PageFile, media_type: str) -> web.Response:
    """Return the file, or 304 if the browser has the current file. `media_type`: the media type.

    Browsers cache the file for a year if the URL contains its hash (``?v=``), and else ask each time whether it has
    changed.
    """
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable"
        if request.query.get("v") == file.content_hash
        else "no-cache",
        "ETag": f'"{file.content_hash}"',
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }
    if any(tag.value == file.content_hash for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    charset = "utf-8" if media_type.startswith("text/") else None
    response = web.Response(body=file.content, content_type=media_type, charset=charset, headers=headers)
    response.headers.pop(hdrs.SET_COOKIE, None)
    return response


@cache
def asset_file(name: str) -> PageFile:
    return read_file(resources.folder("templates") / "connect" / name)


def logo_hash(logo: Path | None) -> str | None:
    """Return the hash of the operator's logo; None if there is no logo, or if its file cannot be read."""
    try:
        return None if logo is None else _image(logo).content_hash
    except NotFound:
        return None


def _image(path: Path) -> PageFile:
    try:
        file_status = path.stat()
        return _logo(path, file_status.st_mtime_ns, file_status.st_size)
    except OSError as fault:
        raise NotFound("not_found", "The logo cannot be read.") from fault


@cache
def _logo(path: Path, _changed: int, _size: int) -> PageFile:
    return read_file(path)


def read_file(path: Path) -> PageFile:
    content = path.read_bytes()
    return PageFile(content, hashlib.sha256(content).hexdigest()[:16])


THEMES: Final = ("light", "dark")
LOOPBACK_ORIGINS: Final = ("http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "https://127.0.0.1:*")


@dataclass(frozen=True, slots=True)
class BrandColor:
    """A brand's color (`background`), and the color of text on it (`text`): white or black, with the higher contrast."""

    background: str
    text: str


def connect_page(
    request: web.Request, template: str, words: PageWords, status: int = 200, *, framed: bool = False, **context: Any
) -> web.Response:
    """Return the page of `template`, with the layout that all pages for end users share.

    `framed`: whether registered origins may embed the page; if false, nobody may embed the page. `context`: further
    values for the template.
    """
    generation = generation_of(request)
    config, branding = generation.config, generation.config.branding
    public_url = config.server.public_url
    content_hash = logo_hash(branding.logo)
    theme = request.query.get("theme", "")
    app = branding.name
    return page(
        request,
        template,
        status,
        script=True,
        ancestors=embedding_origins(generation) if framed else (),
        t=words,
        lang=words.lang,
        app=app or words.plain("the_app"),
        brand=app,
        logo=f"{public_url}/connect/assets/logo?v={content_hash}" if content_hash else None,
        css=f"{public_url}/connect/assets/connect.css?v={asset_file('connect.css').content_hash}",
        icon=f"{public_url}/connect/assets/icon.svg?v={asset_file('icon.svg').content_hash}",
        js=f"{public_url}/connect/assets/connect.js?v={asset_file('connect.js').content_hash}",
        light=brand_color(branding.color),
        dark=brand_color(branding.color_dark),
        theme=theme if theme in THEMES else None,
        **context,
    )


def see_other(url: str) -> web.Response:
    """Return a 303 to `url`. The browser sends no referrer, because the current URL can contain a token."""
    return web.Response(
        status=303,
        headers={hdrs.LOCATION: url, hdrs.CACHE_CONTROL: "no-store", "Referrer-Policy": "no-referrer"},
    )


def embedding_origins(generation: Generation) -> tuple[str, ...]:
    """Return the origins that may embed pages, of all environments together.

    When a session is opened, `may_embed` checks the origins of the session's own environment.
    """
    named_origins = {
        origin for environment in generation.config.environments.values() for origin in environment.connect_origins
    }
    return (*sorted(named_origins), *(LOOPBACK_ORIGINS if trusts_loopback(generation.config) else ()))


def opener_origins(request: web.Request, environment: str | None) -> str:
    """Return the origins to which the last page of a window posts its result, separated by spaces.

    These are the origins registered for `environment` (None: for any environment) and the gateway's own origin; ``*``
    if no origin is registered.
    """
    config = generation_of(request).config
    environment_config = config.environments.get(environment) if environment is not None else None
    named_origins = config.environments.values() if environment_config is None else [environment_config]
    registered = sorted({origin for environment in named_origins for origin in environment.connect_origins})
    return " ".join([*registered, origin_of(config.server.public_url)] if registered else ["*"])


def origin_of(public_url: str) -> str:
    """Return the origin of the gateway's own pages as browsers send it in ``Origin``: without the scheme's own port."""
    scheme, _, host_and_path = public_url.partition("://")
    return f"{scheme}://{host_and_path.partition('/')[0].removesuffix(f':{DEFAULT_PORTS[scheme]}')}"


def may_embed(generation: Generation, environment: str, origin: str) -> bool:
    """Return whether a page of `origin` may show a session of `environment`."""
    return is_registered(generation.config, environment, origin)


def brand_color(background: str) -> BrandColor:
    red, green, blue = (_linear(int(background[index : index + 2], 16) / 255) for index in (1, 3, 5))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return BrandColor(background, "#ffffff" if 1.05 / (luminance + 0.05) >= (luminance + 0.05) / 0.05 else "#000000")


def _linear(component: float) -> float:
    """Return the linear value of an sRGB color component, from 0 to 1 (WCAG 2.2, relative luminance)."""
    return component / 12.92 if component <= 0.04045 else ((component + 0.055) / 1.055) ** 2.4

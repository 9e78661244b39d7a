"""What pages for end users say, in the languages of `templates/connect/words/`; English stands in for what one lacks."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from aiohttp import hdrs, web

from gateway import resources

LANGUAGES: Final = ("en", "de", "fr", "es", "ja")


class Words:
    """Calling it gives a sentence. `asked` says whether the language was chosen and not guessed: then links keep it."""

    def __init__(self, lang: str, *, asked: bool = False) -> None:
        self.lang = lang
        self.asked = asked
        self._words = _read(lang)

    def __call__(self, key: str, **values: Any) -> str:
        """The sentence `key` with its blanks filled in, begun with a capital letter. Raises KeyError for no such key."""
        text = (self._words.get(key) or _read(LANGUAGES[0])[key]).format_map(values)
        return text[:1].upper() + text[1:]

    def plain(self, key: str) -> str:
        """As it stands, to be put into another sentence."""
        return self._words.get(key) or _read(LANGUAGES[0])[key]

    def has(self, key: str) -> bool:
        return key in _read(LANGUAGES[0])


def words_for(request: web.Request, lang: str | None = None) -> Words:
    """In `lang`, else in ``?lang=``, else in the first language of Accept-Language that we have (RFC 9110 §12.5.4)."""
    for wanted in (lang, request.query.get("lang")):
        if wanted and (known := _known(wanted)):
            return Words(known, asked=True)
    return Words(accepted(request.headers.get(hdrs.ACCEPT_LANGUAGE, "")))


def accepted(field: str) -> str:
    """The language of ours that an Accept-Language field likes best; English if none."""
    liked: list[tuple[float, int, str]] = []
    for place, part in enumerate(field[:500].split(",")):
        tag, _, parameter = part.partition(";")
        try:
            weight = float(parameter.strip().removeprefix("q=")) if parameter.strip() else 1.0
        except ValueError:
            continue
        if weight > 0 and (known := _known(tag.strip())):
            liked.append((-weight, place, known))
    return min(liked)[2] if liked else LANGUAGES[0]


def _known(tag: str) -> str | None:
    primary = tag.lower().replace("_", "-").partition("-")[0]
    return primary if primary in LANGUAGES else None


@cache
def _read(lang: str) -> Mapping[str, str]:
    import yaml

    path = resources.folder("templates") / "connect" / "words" / f"{lang}.yaml"
    words: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return words

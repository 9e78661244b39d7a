"""Reads the logos of providers: brand icons from one packed file, and the operator's own images.

The packed file is `_brand_icons.tsv` in the catalog folder. It is read when a page shows an icon, and has one line per
icon, with tabs between the fields: names of entries, color, and an SVG path in a box of 24 × 24.
`python -m tools.brand_icons` builds it from CC0 icons. Each brand belongs to its owner (NOTICE).
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from gateway import resources

ICONS_FILE: Final = "_brand_icons.tsv"
LOGO_FOLDER: Final = "logos"
LOGO_MEDIA_TYPES: Final = {".svg": "image/svg+xml", ".png": "image/png", ".webp": "image/webp", ".jpg": "image/jpeg"}
MAX_LOGO_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class BrandIcon:
    """A brand icon. `color`: the color as ``#rrggbb``. `path`: the path data of an SVG with the box 0 0 24 24."""

    color: str
    path: str


@dataclass(frozen=True, slots=True)
class OwnLogo:
    """An operator's own logo of a provider, with its media type."""

    media_type: str
    content: bytes


@lru_cache(maxsize=64)
def brand_icon(name: str) -> BrandIcon | None:
    """Return the icon of the shipped entry `name`, or None. The results for the last 64 names are cached."""
    path = resources.folder("catalog") / ICONS_FILE
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            names, _, icon_fields = line.partition("\t")
            if name in names.split():
                color, _, path_data = icon_fields.rstrip("\n").partition("\t")
                return BrandIcon(color, path_data)
    return None


def own_logo(folders: tuple[Path, ...], name: str) -> OwnLogo | None:
    """Return ``logos/NAME.svg`` (or .png, .webp, .jpg) from the operator's catalog folders; the last folder wins.

    Files with more than `MAX_LOGO_BYTES` bytes are skipped. Return None if no file is left.
    """
    for folder in reversed(folders):
        for ending, media_type in LOGO_MEDIA_TYPES.items():
            path = folder / LOGO_FOLDER / f"{name}{ending}"
            try:
                with path.open("rb") as file:
                    content = file.read(MAX_LOGO_BYTES + 1)
            except OSError:
                continue
            if len(content) <= MAX_LOGO_BYTES:
                return OwnLogo(media_type, content)
    return None

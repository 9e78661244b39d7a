"""A neutral logo: the provider's initials on a colour of its own. No trademark is drawn, nothing is fetched."""

import colorsys
import hashlib
from functools import lru_cache
from html import escape
from typing import Final

LEAST_CONTRAST: Final = 4.5  # of white letters on the colour, as WCAG 2.2 §1.4.3 asks


@lru_cache(maxsize=2048)
def svg(name: str, display_name: str) -> str:
    """An SVG of 64 by 64 with the initials of `display_name`; its colour depends on `name` alone."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64" role="img">'
        f"<title>{escape(display_name)}</title>"
        f'<rect width="64" height="64" rx="14" fill="{colour(name)}"/>'
        '<text x="32" y="33" fill="#ffffff" font-family="system-ui, sans-serif" font-size="26" font-weight="600" '
        f'text-anchor="middle" dominant-baseline="central">{escape(initials(display_name))}</text>'
        "</svg>"
    )


def initials(display_name: str) -> str:
    """One or two letters: of the first two words, or of a name's inner capitals (``GitHub`` ▸ ``GH``)."""
    words = ["".join(c for c in word if c.isalnum()) for word in display_name.split()]
    words = [word for word in words if word]
    if not words:
        return "?"
    if len(words) > 1:
        return (words[0][0] + words[1][0]).upper()
    capitals = [c for c in words[0][1:] if c.isupper()]
    return words[0][0].upper() + (capitals[0] if capitals and not words[0].isupper() else "")


def colour(name: str) -> str:
    """``#rrggbb``, the same for the same name, dark enough for white letters."""
    digest = hashlib.sha256(name.encode()).digest()
    hue, saturation = digest[0] / 256, 0.45 + digest[1] / 256 * 0.25
    lightness = 0.5
    while contrast_with_white(rgb := colorsys.hls_to_rgb(hue, lightness, saturation)) < LEAST_CONTRAST:
        lightness -= 0.02
    return "#" + "".join(f"{int(part * 255):02x}" for part in rgb)


def contrast_with_white(rgb: tuple[float, float, float]) -> float:
    """The contrast ratio of WCAG 2.2 between white and `rgb`, parts from 0 to 1."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)

"""``python -m tools.brand_icons PACKAGE``: write catalog/_brand_icons.tsv from an unpacked npm package `simple-icons`.

An entry gets the icon whose title or alias is its display name without brackets, or its own name. Otherwise it gets the
icon of its family or base. Left out: icons with a licence of their own other than CC0, and those in `NOT_THEIRS`.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.catalog.brand_icons import ICONS_FILE
from gateway.catalog.yaml_file import read_yaml

ROOT: Final = Path(__file__).parents[1]
CC0: Final = "CC0-1.0"
NOT_THEIRS: Final = frozenset({("terraform", "opentofu")})
"""Entries that share their name with the icon of another brand."""
_PATH: Final = re.compile(r'<path d="([^"<>&]+)"/></svg>')
_BRACKETS: Final = re.compile(r"\s*\(.*?\)")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("package", type=Path, help="the folder with package.json, icons/ and data/")
    package = arguments.parse_args().package
    version = json.loads((package / "package.json").read_text("utf-8"))["version"]
    icons = json.loads((package / "data" / "simple-icons.json").read_text("utf-8"))
    entries = {path.stem: read_yaml(path).value for path in sorted((ROOT / "catalog").glob("*.yaml"))}
    chosen = chosen_icons(entries, icons)
    lines = [
        f"# npm simple-icons {version}, CC0-1.0. Made by `python -m tools.brand_icons`. Brands belong to their owners."
    ]
    for slug in sorted(set(chosen.values())):
        color = next(icon["hex"] for icon in icons if icon["slug"] == slug)
        names = " ".join(name for name, icon in chosen.items() if icon == slug)
        lines.append(f"{names}\t#{color.lower()}\t{drawing(package, slug)}")
    (ROOT / "catalog" / ICONS_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 1} icons for {len(chosen)} of {len(entries)} entries")


def chosen_icons(entries: Mapping[str, Mapping[str, Any]], icons: list[dict[str, Any]]) -> dict[str, str]:
    """Return the icon of each entry, as a mapping: name of the entry ▸ slug of the icon."""
    by_name = {name: icon["slug"] for icon in reversed(icons) if is_free(icon) for name in _names(icon)}
    own: dict[str, str] = {}
    for name, entry in entries.items():
        shown = _comparable_name(_BRACKETS.sub("", entry.get("display_name", "")))
        slug = by_name.get(shown) or by_name.get(_comparable_name(name))
        if slug is not None and (name, slug) not in NOT_THEIRS:
            own[name] = slug
    return {name: slug for name in entries if (slug := _family_icon(name, entries, own)) is not None}


def _family_icon(name: str, entries: Mapping[str, Mapping[str, Any]], own: Mapping[str, str]) -> str | None:
    kin = (name, str(entries[name].get("alias")), str(entries[name].get("family")))
    return next((own[item] for item in kin if item in own), None)


def is_free(icon: Mapping[str, Any]) -> bool:
    """Return whether the icon has the CC0 licence. This is the package's licence, unless the icon has its own."""
    return bool(icon.get("license", {}).get("type", CC0) == CC0)


def _names(icon: Mapping[str, Any]) -> Iterator[str]:
    others = icon.get("aliases", {})
    same = [item["title"] for item in others.get("dup", ())]
    for name in (icon["title"], icon["slug"], *others.get("aka", ()), *same, *others.get("loc", {}).values()):
        yield _comparable_name(name)


def _comparable_name(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.lower().replace("&", "and"))


def drawing(package: Path, slug: str) -> str:
    """Return the only path of the icon. Raises SystemExit if the icon has several paths."""
    found = _PATH.search((package / "icons" / f"{slug}.svg").read_text("utf-8"))
    if found is None:
        raise SystemExit(f"{slug}.svg must contain exactly one path")
    return found[1]


if __name__ == "__main__":
    main()

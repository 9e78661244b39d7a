"""The snippets of docs/sdks.md, unchanged."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "sdks.md").read_text()
SNIPPETS = {
    (name, way): (language, text)
    for name, way, language, text in re.findall(
        r"<!-- sdk: ([\w-]+) (headers|capability) -->\n```(python|js)\n(.*?)```", PAGE, re.DOTALL
    )
}
WAYS = ("headers", "capability")
NAMES = tuple(dict.fromkeys(name for name, _ in SNIPPETS))


def snippet(name: str, access: str) -> tuple[str, str]:
    """Return the language (``python`` or ``js``) and the text. Two snippets are derived from the one with headers."""
    if (name, access) in SNIPPETS:
        return SNIPPETS[name, access]
    language, text = SNIPPETS[name, "headers"]
    text = text.replace('/proxy"', '/c/<CAPABILITY>"')
    text = re.sub(r"HEADERS = \{.*?\n\}", "HEADERS = {}", text, flags=re.DOTALL)
    text = re.sub(r"    options=\{.*?\n", "", text)
    return language, text.replace('os.environ["GATEWAY_SECRET_KEY"]', '"unused"')

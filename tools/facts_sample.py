"""``python -m tools.facts_sample FACTS``: draw a hundred providers from a facts file, with a fixed seed, for a test.

The tool writes tests/journeys/catalog_facts.json. For each provider, this file has only the fields that decide its
URLs, its token request and the place of its credential. The whole file of facts is not in the repository, because most
of it is about other things.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
SAMPLE: Final = ROOT / "tests" / "journeys" / "catalog_facts.json"
SEED: Final = 2026
COUNT: Final = 100
MODES: Final = frozenset({"OAUTH2", "OAUTH2_CC", "API_KEY", "BASIC"})
FIELDS: Final = (
    "name", "family", "auth_mode", "authorization_url", "authorization_params", "authorization_param_renames",
    "authorization_url_fragment", "authorization_code_param_in_callback", "token_url", "token_params",
    "token_request_auth_method", "token_request_format", "scope_separator", "default_scopes", "pkce",
    "token_response_metadata", "callback_metadata",
)  # fmt: skip


def draw_providers(facts: list[dict[str, Any]], made: set[str], *, seed: int, count: int) -> list[dict[str, Any]]:
    """Return `count` providers of `facts` that have a generated entry. The same `seed` always draws the same providers."""
    known = [fact for fact in facts if fact["name"] in made and fact["auth_mode"] in MODES]
    chosen = random.Random(seed).sample(known, count)  # noqa: S311 - a draw, not a secret
    return [_trim(one) for one in sorted(chosen, key=lambda one: str(one["name"]))]


def _trim(item: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: item[key] for key in FIELDS if key in item}
    settings = [
        {key: setting[key] for key in ("name", "default") if key in setting}
        for setting in item.get("connection_configuration", ())
    ]
    proxy = {key: item["proxy"][key] for key in ("base_url", "headers", "query") if key in item["proxy"]}
    return {**kept, **({"connection_configuration": settings} if settings else {}), "proxy": proxy}


def generated_entries() -> set[str]:
    """Return the names of the shipped entries that were generated from facts."""
    from tools.catalog_from_facts.__main__ import is_generated

    return {path.stem for path in (ROOT / "catalog").glob("*.yaml") if is_generated(path)}


def main() -> int:
    """Draw the sample and write it."""
    facts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    chosen = draw_providers(facts, generated_entries(), seed=SEED, count=COUNT)
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in chosen)
    SAMPLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"wrote {SAMPLE.relative_to(ROOT)}: {', '.join(item['name'] for item in chosen)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

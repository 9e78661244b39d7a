"""The reference configuration and its page agree with the code."""

import re
from pathlib import Path

from gateway.config import load, parse
from gateway.config.config_shape import FORMER, SECTIONS

ROOT = Path(__file__).parents[3]
KEY = "dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="
ENVIRON = {"GATEWAY_ENCRYPTION_KEY": KEY, "GATEWAY_SECRET_KEY": "a-secret-key-of-dev"}
KEYS = [
    (place, key)
    for place, shape in SECTIONS.items()
    for key in shape.model_fields
    if place not in FORMER and (*place, key) not in FORMER
]


def test_every_key_is_on_the_page_and_in_the_reference() -> None:
    page, reference = (ROOT / "docs" / "configuration.md").read_text(), (ROOT / "gateway.yaml").read_text()
    for place, key in KEYS:
        nested = "*" in place
        name = key if nested or not place else ".".join((*place, key))
        section = f"## {name}" if not place and key != "catalog" else f"| `{name}` |"
        assert page.count(section) > 0, f"docs/configuration.md lacks {section}"
        assert re.search(rf"^[ #]*{key}:", reference, re.MULTILINE) is not None, f"gateway.yaml lacks {name}"


def test_the_page_states_each_default() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    derived = {"public_url", "provider", "encryption_keys"}
    stated = 0
    for place, key in KEYS:
        default = SECTIONS[place].model_fields[key].default
        if not place or key in derived or not isinstance(default, str | int | float | bool | None):
            continue
        name = key if "*" in place else ".".join((*place, key))
        shown = str(default).lower().replace("none", "null")
        assert page.count(f"| `{name}` | `{shown}` |") > 0, f"docs/configuration.md: {name} must be {shown}"
        stated += 1
    assert stated > 50


def test_the_reference_loads_and_states_the_defaults() -> None:
    reference = load(ROOT / "gateway.yaml", environ=ENVIRON)
    environments = {"dev": {"secret_keys": [ENVIRON["GATEWAY_SECRET_KEY"]]}}
    assert reference.path is not None
    plain = parse({"store": {"encryption_keys": [KEY]}, "environments": environments}, base=ROOT, environ={})
    for part in ("server", "live", "store", "catalog", "environments", "egress"):
        assert getattr(reference, part) == getattr(plain, part), part


def test_the_commented_part_of_the_reference_loads_too(tmp_path: Path) -> None:
    text = (ROOT / "gateway.yaml").read_text().replace("    integrations: {}", "    x: {}", 1)
    text = re.sub(r"^    x: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^    # (integrations:|  )", r"    \1", text, flags=re.MULTILINE)
    (tmp_path / "gateway.yaml").write_text(text)
    environ = {**ENVIRON, "JIRA_CLIENT_ID": "id", "JIRA_CLIENT_SECRET": "secret"}
    jira = load(tmp_path / "gateway.yaml", environ=environ).environments["dev"].integrations["jira"]
    assert (jira.provider, jira.client_id, jira.site_selection) == ("jira", "id", "match")


def test_the_reference_contains_no_secret() -> None:
    text = (ROOT / "gateway.yaml").read_text()
    assert not re.search(r"[A-Za-z0-9+/_-]{32,}", text)


def test_first_example_of_the_page_is_a_valid_configuration(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    (tmp_path / "gateway.yaml").write_text(example[1])
    (tmp_path / "encryption_key").write_text(KEY)
    (tmp_path / "secret_key").write_text("a-secret-key-of-dev")
    config = load(tmp_path / "gateway.yaml", environ={"JIRA_CLIENT_ID": "a-client", "JIRA_CLIENT_SECRET": "a-secret"})
    assert list(config.environments["dev"].integrations) == ["jira"]

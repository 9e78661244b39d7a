"""docs/operations.md agrees with the code."""

import re
from pathlib import Path

import pytest

from gateway.config.config_shape import FORMER, SECTIONS
from gateway.config.model import FIXED
from gateway.observe.metrics import FAMILIES

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


def test_every_metric_is_on_the_page_with_its_labels() -> None:
    for name, family in FAMILIES.items():
        rows = [line.split("|")[2].strip() for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
        assert rows == [", ".join(f"`{label}`" for label in family.labels)], name


def test_page_lists_no_unknown_metric() -> None:
    assert set(re.findall(r"gateway_[a-z]\w+", PAGE)) <= {
        name + suffix for name in FAMILIES for suffix in ("", "_bucket")
    }


@pytest.mark.parametrize("place", FIXED, ids=".".join)
def test_page_lists_the_settings_that_need_a_restart(place: tuple[str, ...]) -> None:
    assert f"`{'.'.join(place)}`" in PAGE.partition("| needs a restart |")[2].partition("\n\n")[0]


@pytest.mark.parametrize("name", [key for key in SECTIONS[()].model_fields if (key,) not in FORMER])
def test_page_states_for_each_section_whether_a_reload_changes_it(name: str) -> None:
    table = PAGE.partition("| may change | needs a restart |")[2].partition("\n\n")[0]
    assert re.search(rf"`{name}[`.]", table)

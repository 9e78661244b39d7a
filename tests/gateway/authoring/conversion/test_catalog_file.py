"""A whole catalog in another format is converted: equivalent fields are kept, and lost fields are reported."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.authoring.conversion import catalog_file
from gateway.authoring.conversion.catalog_file import ConvertedEntry, convert_catalog, write
from gateway.catalog.checks import ExternalNames
from gateway.catalog.lint import lint
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.catalog.provider import Provider
from gateway.catalog.render import render_text, render_url
from gateway.catalog.template import placeholders
from gateway.catalog.template_places import text_templates, url_templates
from gateway.cli.catalog.catalog_in_use import external_names, shipped_values
from gateway.integrations.declared import SCRIPTS, known_modes
from tests.fakes.foreign_catalog import SAME, foreign_catalog
from tests.gateway.catalog.folders import SHIPPED

FIELDS_COPIED_UNCHANGED = (
    "auth_mode", "authorization_url", "token_url", "refresh_url", "request_url", "authorization_params", "token_params",
    "token_body", "token_headers", "refresh_params", "token_request_auth_method", "scope_separator", "default_scopes",
    "alternatives", "token_response", "jwt", "additional_steps", "token_response_metadata",
    "alternate_access_token_response_path",
)  # fmt: skip

# Placeholders and text, without functions, times and line breaks.
_PLAIN = re.compile(r"(?:[^$\n]|\$\{(?!now|random)[A-Za-z0-9_.-]+\})*")


class Imported:
    """The shipped catalog, converted to the other format and back."""

    def __init__(self, folder: Path) -> None:
        self.shipped = load_catalog([SHIPPED], scripts=SCRIPTS, modes=known_modes())
        self.entries, self.add_lost = foreign_catalog(self.shipped.providers)
        source = folder / "theirs.yaml"
        source.write_text(yaml.safe_dump(self.entries, sort_keys=False, allow_unicode=True), encoding="utf-8")
        self.found = {item.name: item for item in convert_catalog(source, external_names(), shipped_values())}
        self.usable = {name: item for name, item in self.found.items() if item.values is not None}
        self.folder = folder / "ours"
        write(list(self.usable.values()), self.folder, source=source.name)
        self.catalog: Catalog = load_catalog([self.folder], scripts=SCRIPTS, modes=known_modes())


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return Imported(tmp_path_factory.mktemp("import"))


def fields_noted(entry: ConvertedEntry, kind: str) -> set[str]:
    return {note.field for note in entry.notes if note.kind == kind}


def test_at_least_95_of_100_entries_are_usable(imported: Imported) -> None:
    assert len(imported.entries) > 1000
    assert len({entry.get("auth_mode") for entry in imported.entries.values()} - {None}) >= 14
    refused = {name: item.notes for name, item in imported.found.items() if item.values is None}
    assert len(imported.usable) >= 0.95 * len(imported.entries), dict(list(refused.items())[:10])
    assert all(fields_noted(imported.found[name], "refused") for name in refused)


def test_written_entries_have_no_faults(imported: Imported) -> None:
    found = lint([imported.folder], scripts=SCRIPTS, modes=known_modes())
    assert [str(fault) for fault in found if fault.level == "fault"] == []
    assert len(imported.catalog.providers) == len(imported.usable)


def test_fields_of_both_formats_survive_the_round_trip(imported: Imported) -> None:
    different: Counter[str] = Counter()
    compared = 0
    for name, before in imported.shipped.providers.items():
        if name not in imported.usable or name in imported.add_lost:
            continue
        after = imported.catalog.providers[name]
        compared += 1
        for key in FIELDS_COPIED_UNCHANGED:
            if _plain(_expressible(before, key)) != _plain(_expressible(after, key)):
                different[f"{name}.{key}"] += 1
        for key in ("base_url", "headers", "query", "paginate"):
            if _plain(getattr(before.proxy, key)) != _plain(getattr(after.proxy, key)):
                different[f"{name}.proxy.{key}"] += 1
    assert compared > 500
    assert len(different) <= 0.01 * compared, different


def _expressible(provider: Provider, key: str) -> Any:
    """Return the field as far as the other format supports it: alternatives only of some URLs, further steps only in
    TWO_STEP.
    """
    if key == "alternatives":
        return {name: forms for name, forms in provider.alternatives.items() if name in {*SAME, "proxy.base_url"}}
    return None if key == "additional_steps" and provider.auth_mode != "TWO_STEP" else getattr(provider, key)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value


def test_every_template_renders(imported: Imported) -> None:
    """Each URL and text of every entry renders, with valid values for its settings, to the same as a plain
    replacement."""
    rendered = 0
    for provider in imported.catalog.providers.values():
        config = {name: sample(provider, name) for name in _names(provider, "connectionConfig")}
        if None in config.values():
            continue
        others = {name: "x" for name in _all_names(provider) if not name.startswith("connectionConfig.")}
        plain = {name: str(value) for name, value in config.items()}
        known = {**{f"connectionConfig.{name}": value for name, value in plain.items()}, **others}
        for place, template in url_templates(provider):
            if set(placeholders(template)) & set(others) or _is_converted_differently(provider, template):
                continue
            url = render_url(template, plain, provider.connection_config, others)
            assert "${" not in url, (provider.name, place)
            assert url.lower() == _by_hand(template, known).lower(), (provider.name, place)
            rendered += 1
        for _, template in text_templates(provider):
            if _PLAIN.fullmatch(template):
                assert render_text(template, known) == _by_hand(template, known)
                rendered += 1
    assert rendered > 2000


def _is_converted_differently(provider: Provider, template: str) -> bool:
    """Return whether values are percent-encoded in a path or query, which `_by_hand` does not do."""
    path = template.partition("://")[2].partition("/")[2]
    return "${" in path


def _by_hand(template: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        template = template.replace(f"${{{name}}}", value)
    return template


def sample(provider: Provider, name: str) -> str | None:
    """Return a valid value for a setting."""
    setting = provider.connection_config.get(name)
    if setting is None:
        return "x"
    if value := setting.example or setting.default_value or (setting.enum or [None])[0]:
        return value
    if setting.pattern is not None:
        return next((item for item in ("acme", "1", "us", "a1b2c3") if re.fullmatch(setting.pattern, item)), None)
    kinds = {"hostname": "api.acme.test", "uri": "https://api.acme.test", "email": "a@acme.test"}
    return {**kinds, "uuid": "0b0f6a5e-0000-4000-8000-000000000000"}.get(setting.format or "", "acme")


def _all_names(provider: Provider) -> set[str]:
    return {
        name for _, template in (*url_templates(provider), *text_templates(provider)) for name in placeholders(template)
    }


def _names(provider: Provider, namespace: str) -> set[str]:
    return {name.partition(".")[2] for name in _all_names(provider) if name.startswith(f"{namespace}.")}


def test_every_loss_is_reported_with_its_line(imported: Imported) -> None:
    source = (imported.folder.parent / "theirs.yaml").read_text().splitlines()
    expected = {
        name: field for name, field in imported.add_lost.items() if field is not None and name in imported.usable
    }
    assert len(expected) > 100
    for name, field in expected.items():
        notes = [note for note in imported.found[name].notes if note.kind == "lost" and note.field == field]
        assert notes, (name, field, imported.found[name].notes)
        line = source[int(notes[0].where.rpartition(":")[2]) - 1]
        assert line.strip().startswith(f"{field.rpartition('.')[2]}:"), (name, field, line)


def test_field_expressed_differently_is_not_reported_as_lost(imported: Imported) -> None:
    for name, field in imported.add_lost.items():
        if field is None:
            assert fields_noted(imported.found[name], "lost") <= {"docs"}, (name, imported.found[name].notes)


def test_entry_that_still_has_faults_after_the_repairs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_file, "MAX_REPAIRS", 1)
    paginate = {"type": "cursor", "offset_calculation_method": "now and then"}
    entry = {
        "display_name": "Far",
        "auth_mode": "NONE",
        "proxy": {"base_url": "https://far.test", "paginate": paginate},
    }
    source = tmp_path / "theirs.yaml"
    source.write_text(yaml.safe_dump({"a/far": entry}))
    (found,) = convert_catalog(source, ExternalNames(known_modes(), SCRIPTS), {})
    assert found.values is None
    assert fields_noted(found, "lost") == {"proxy.paginate.offset_calculation_method"}
    assert "'a/far' cannot name a provider" in found.notes[-1].message


def test_an_alias_becomes_a_separate_entry(imported: Imported) -> None:
    heirs = [name for name in imported.entries if name.endswith("-sandbox") and "alias" in imported.entries[name]]
    usable = [name for name in heirs if name in imported.usable]
    assert len(usable) > 100
    for name in usable:
        heir, base = imported.catalog.providers[name], imported.catalog.providers[name.removesuffix("-sandbox")]
        assert heir.display_name.endswith("(sandbox)")
        assert heir.proxy.base_url == base.proxy.base_url
        assert heir.alias is None

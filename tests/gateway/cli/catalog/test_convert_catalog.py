"""``gateway catalog import``: entries of a public catalog are written as files of the gateway, with a note on each
loss."""

import json
from pathlib import Path

import pytest
import yaml

from tests.gateway.cli.catalog.test_show_catalog import catalog

THEIRS = """\
shop:
  display_name: Shop
  categories: [commerce]
  auth_mode: API_KEY
  proxy:
    base_url: https://${connectionConfig.site}.shop.test || https://api.shop.test
    headers:
      x-key: ${apiKey}
      x-version: ${connectionConfig.version} || v2
    retry: {after: retry-after, in_body: {path: error}}
  connection_config:
    site: {type: string, title: Site, description: Yours., optional: true}
child:
  alias: shop
  proxy:
    base_url: https://child.test
    headers: {x-key: "${apiKey}"}
our-jira: {alias: jira, display_name: Our Jira}
old:
  display_name: Old
  categories: [other]
  auth_mode: TWO_STEP
  token_url: https://old.test/login
  body_format: xml
  proxy: {base_url: 'https://old.test'}
signed:
  display_name: Signed
  categories: [other]
  auth_mode: API_KEY
  proxy:
    base_url: https://signed.test
    headers: {authorization: "${awsSigV4(${apiKey}, s, r, x)}"}
round: {alias: round}
"""


@pytest.fixture
def foreign_file(tmp_path: Path) -> Path:
    file = tmp_path / "theirs.yaml"
    file.write_text(THEIRS)
    return file


def test_import_writes_supported_fields_and_reports_the_rest_with_lines(foreign_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = catalog("import", str(foreign_file), "--out", str(out))
    assert ran.exit_code == 1
    assert sorted(path.name for path in out.iterdir()) == ["child.yaml", "our-jira.yaml", "shop.yaml"]
    assert "theirs.yaml:10: shop: lost: proxy.retry.in_body: responses are streamed" in ran.stdout
    assert "theirs.yaml:24: old: refused: body_format: token requests are form, json or query" in ran.stdout
    assert "theirs.yaml:32: signed: refused: proxy.headers.authorization" in ran.stdout
    assert "theirs.yaml:33: round: refused: alias: inherits from itself" in ran.stdout
    assert "3 of 6 entries can be used, 2 of them completely" in ran.stdout
    assert catalog("lint", str(out)).exit_code == 0
    shop = yaml.safe_load((out / "shop.yaml").read_text())
    assert shop["proxy"]["base_url"] == "https://api.shop.test"
    assert shop["alternatives"] == {"proxy.base_url": ["https://${connectionConfig.site}.shop.test"]}
    assert shop["connection_config"]["version"] == {"default_value": "v2"}
    child = yaml.safe_load((out / "child.yaml").read_text())
    # replaced as a whole, not merged deeply
    assert child["proxy"] == {"base_url": "https://child.test", "headers": {"x-key": "${apiKey}"}}
    assert child["display_name"] == "Shop"
    assert yaml.safe_load((out / "our-jira.yaml").read_text())["alias"] == "jira"


def test_imported_entry_passes_a_rehearsal(foreign_file: Path, tmp_path: Path) -> None:
    catalog("import", str(foreign_file), "--out", str(tmp_path / "out"))
    file = tmp_path / "gateway.yaml"
    file.write_text("catalog: [out]\nstore: {encryption_keys: [dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE=]}\n")
    for name in ("shop", "child", "our-jira"):
        ran = catalog("test", name, "-c", str(file))
        assert ran.exit_code == 0, ran.output


def test_import_without_a_folder_only_reports(foreign_file: Path, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    body = json.loads(catalog("import", str(foreign_file), "--json").stdout)
    assert set(tmp_path.iterdir()) == before
    assert (body["ok"], body["entries"], body["usable"]) == (False, 6, 3)
    (shop,) = [item for item in body["data"] if item["name"] == "shop"]
    assert [note["field"] for note in shop["lost"]] == ["proxy.retry.in_body"]
    assert shop["lost"][0]["where"].endswith("theirs.yaml:10")
    assert {"proxy.base_url", "proxy.headers.x-version"} <= {note["field"] for note in shop["changed"]}


def test_import_does_not_change_existing_files(foreign_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "shop.yaml").write_text("mine")
    ran = catalog("import", str(foreign_file), "--out", str(out))
    assert (out / "shop.yaml").read_text() == "mine"
    assert "shop.yaml already exists and was not changed" in ran.stderr
    catalog("import", str(foreign_file), "--out", str(out), "--force")
    assert (out / "shop.yaml").read_text() != "mine"


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "a: 1\nb: 2\n"])
def test_a_file_of_another_kind_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    ran = catalog("import", str(tmp_path / "odd.yaml"))
    assert ran.exit_code == 1
    assert "odd.yaml:1: is not a file of entries" in ran.stderr

"""Corrections of facts by hand: one file per provider, which is merged into the entry that was generated from facts.

A correction has the fields of an entry. `null` removes a field. A key such as ``token_url#`` contains the comment on
`token_url`. ``sources+`` adds sources.

``_left_out.yaml`` names the providers that the catalog leaves out, with the reason. Each of three files corrects many
providers: ``_verifications.yaml`` has the path that verifies a credential, ``_retries.yaml`` has the header fields that
say when to retry, and ``_names.yaml`` has better display names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.catalog.folder import merge
from gateway.catalog.yaml_file import read_yaml

LEFT_OUT: Final = "_left_out.yaml"
VERIFICATIONS: Final = "_verifications.yaml"
RETRIES: Final = "_retries.yaml"
NAMES: Final = "_names.yaml"
MORE_SOURCES: Final = "sources+"


@dataclass(frozen=True, slots=True)
class Corrections:
    """All corrections in a folder by provider, and the left-out providers with the reason."""

    entries: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, str]
    verifications: Mapping[str, str]
    names: Mapping[str, str]
    retries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def corrected(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return `entry` with its corrections."""
        if (path := self.verifications.get(name)) is not None:
            entry = merge(entry, {"proxy": {"verification": {"endpoints": [path]}}})
        if (retry := self.retries.get(name)) is not None:
            entry = merge(entry, {"proxy": {"retry": retry}})
        if (shown := self.names.get(name)) is not None:
            entry = {**entry, "display_name": shown}
        correction = dict(self.entries.get(name, {}))
        more = correction.pop(MORE_SOURCES, [])
        corrected = merge(entry, correction)
        return corrected | ({"sources": [*corrected["sources"], *more]} if more else {})


def load_corrections(folder: Path) -> Corrections:
    """Return the corrections in this folder. Raises Unreadable, and ValueError for YAML errors."""
    found = {path.stem: _value(path) for path in sorted(folder.glob("*.yaml")) if not path.name.startswith("_")}
    lists = (_value(folder / name) for name in (LEFT_OUT, VERIFICATIONS, NAMES, RETRIES))
    return Corrections(found, *lists)


def _value(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    document = read_yaml(path)
    if document.faults:
        raise ValueError("\n".join(map(str, document.faults)))
    return dict(document.value)

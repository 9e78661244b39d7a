"""References in a configuration: how they are replaced, and which texts stay unchanged."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.substitution import Substitution, substitute

ENVIRON = {"NAME": "value", "EMPTY": "", "TRICK": "${NAME} $${ ${file:secret}", "_a1": "x"}


def fill(text: str, environ: dict[str, str] | None = None, base: Path = Path("/nowhere")) -> str | None:
    value, wrong = Substitution(ENVIRON if environ is None else environ, base).fill(text)
    assert wrong == []
    return value


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${NAME}", "value"),
        ("a ${NAME} b ${NAME}", "a value b value"),
        ("${_a1}", "x"),
        ("${EMPTY}", ""),
        ("${NOT:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${NAME:-default}", "value"),
        ("${NOT:-a:-b c: $d}", "a:-b c: $d"),
        ("${NOT:-}", None),
        ("x${NOT:-}", "x"),
        ("${EMPTY:-}", None),
        ("${NAME:-}", "value"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$$", "$$"),
        ("$NAME", "$NAME"),
        ("{NAME}", "{NAME}"),
        ("${connectionConfig.cloudId}", "${connectionConfig.cloudId}"),
        ("https://${connectionConfig.sub-domain}.x/${NAME}", "https://${connectionConfig.sub-domain}.x/value"),
        ("${TRICK}", "${NAME} $${ ${file:secret}"),
    ],
)
def test_reference_is_replaced_by_its_value(text: str, becomes: str | None) -> None:
    assert fill(text) == becomes


@pytest.mark.parametrize(
    "text", ["${NOT}", "${", "${}", "${1A}", "${A B}", "${NAME-x}", "${NAÏVE}", "${NOT:-${NAME}}", "a${b"]
)
def test_a_reference_that_cannot_be_filled_is_reported(text: str) -> None:
    _, wrong = Substitution(ENVIRON, Path("/nowhere")).fill(text)
    assert len(wrong) == 1


def test_every_unresolved_reference_of_a_text_is_reported() -> None:
    _, wrong = Substitution({}, Path("/nowhere")).fill("${A} ${B} ${file:c}")
    assert [name in message for name, message in zip("ABc", wrong, strict=True)] == [True] * 3


@given(st.text())
def test_a_literal_text_survives_when_its_references_are_escaped(text: str) -> None:
    assert fill(text.replace("${", "$${"), {}) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_inserted_values_are_never_substituted_again(value: str) -> None:
    assert fill("<${A}>", {"A": value}) == f"<{value}>"


@given(st.text(st.characters(exclude_characters="}$", exclude_categories=["Cs"])), st.booleans())
def test_default_is_used_literally(default: str, empty: bool) -> None:
    assert fill(f"<${{A:-{default}}}>", {"A": ""} if empty else {}) == f"<{default}>"


@given(st.text(alphabet="${}:-.AB file"))
def test_substitution_of_any_text_fails_only_with_the_documented_error(text: str) -> None:
    value, wrong = Substitution({"A": "x"}, Path("/nowhere")).fill(text)
    assert wrong or value is None or isinstance(value, str)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_characters="$")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_a_tree_without_references_is_unchanged(tree: Any) -> None:
    assert substitute(tree, Substitution({}, Path("/nowhere"))) == (tree, [], {})


def test_keys_are_not_substituted() -> None:
    tree, wrong, _ = substitute({"${NAME}": ["${NAME}", 3]}, Substitution(ENVIRON, Path("/nowhere")))
    assert tree == {"${NAME}": ["value", 3]}
    assert wrong == []


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"secret\n", "secret"),
        (b"secret", "secret"),
        (b"secret\n\n", "secret\n"),
        (b"secret\r\n", "secret"),
        (b"  s \n", "  s "),
        (b"", ""),
        ("sécret ${NAME}\n".encode(), "sécret ${NAME}"),
    ],
)
def test_file_reference_is_its_content_without_the_final_newline(tmp_path: Path, content: bytes, value: str) -> None:
    (tmp_path / "secret").write_bytes(content)
    assert fill("${file:secret}", base=tmp_path) == value
    assert fill(f"${{file:{tmp_path}/secret}}") == value


@pytest.mark.parametrize(
    ("content", "message"), [(b"\xff\xfe", "not UTF-8"), (b"x" * 70_000, "more than 64 KiB")], ids=["binary", "long"]
)
def test_unusable_file_is_reported_without_its_content(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "secret").write_bytes(content)
    _, [wrong] = Substitution({}, tmp_path).fill("${file:secret}")
    assert message in wrong
    assert "xxx" not in wrong


def test_a_variable_that_is_not_text_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"GATEWAY_TEST_BYTES", b"\xff")
    _, [wrong] = Substitution(os.environ, Path("/nowhere")).fill("${GATEWAY_TEST_BYTES}")
    assert wrong == "${GATEWAY_TEST_BYTES} is not UTF-8 in the environment"

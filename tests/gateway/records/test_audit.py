"""The detail of audit records: what is shown of it, and what that costs."""

import pytest

from gateway.observe.masking import masked_text
from gateway.records.audit import MAX_DETAIL_CHARS, MAX_TEXT_CHARS, safe_detail


def test_a_detail_is_shown_with_secrets_masked_and_texts_cut() -> None:
    detail = {"limits": [{"rules": ["GET /a", "x" * 600]}], "password": "hidden", "rate": 7, "text": "token=hidden"}
    result = safe_detail(detail)
    assert "hidden" not in str(result)
    assert (result["limits"], result["rate"]) == ([{"rules": ["GET /a", "x" * MAX_TEXT_CHARS]}], 7)


@pytest.mark.parametrize("texts", [["GET /a"] * 10_000, [f"GET /{'*a' * 250}"] * 1000, ["\n"] * MAX_DETAIL_CHARS])
def test_a_detail_that_is_too_long_is_not_masked_text_by_text(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules of a key and all its ancestors took 60 ms of the event loop, and were not shown."""
    length = 0

    def count_and_mask(text: str) -> str:
        nonlocal length
        length += len(text)
        return masked_text(text)

    monkeypatch.setattr("gateway.records.audit.masked_text", count_and_mask)
    assert safe_detail({"name": "x", "limits": [{"rules": texts}]}) == {"too_long": ["limits", "name"]}
    assert length <= MAX_DETAIL_CHARS + MAX_TEXT_CHARS

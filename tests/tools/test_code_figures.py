"""The figures on the code are counted correctly."""

from pathlib import Path

from tools.code_figures import code_lines, importers, modules


def test_docstrings_comments_and_blank_lines_are_not_counted_as_code(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        '"""About.\n\nMore.\n"""\n\n# why\nA = (\n    1\n)  # three lines\n\n\ndef f():\n    """Says."""\n    return A\n'
    )
    assert code_lines(file) == 5


def test_each_file_is_counted_once_and_its_importers_are_found() -> None:
    found = modules()
    assert len(set(found.values())) == len(found)
    assert "gateway.middleware.request_message" in found
    assert "gateway.middleware.surfaces" in importers(found)["gateway.middleware.request_message"]

"""Whether the paths of two rules have a path in common."""

import pytest

from gateway.mcp.path_overlap import MAX_STEPS, Overlaps, may_overlap, overlap


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/c", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),  # * matches within one segment
        ("/a/**", "/a/b/c", True),
        ("/**/c", "/a/b/c", True),
        ("/**/c", "/a/b/d", False),
        ("/a/{id}", "/*/b", True),
        ("/a*c", "/*b*", True),
        ("/a*", "/b*", False),
        ("/a/{id}/x", "/a/{name}/y", False),
        ("/search*", "/search", True),
    ],
)
def test_two_paths_overlap_where_one_request_fits_both(first: str, second: str, common: bool) -> None:
    for left, right in ((first, second), (second, first)):
        assert overlap(left, right) is common
        assert may_overlap(left, right) is common


@pytest.mark.parametrize("run", ["*", "**"])
def test_long_paths_are_compared_completely(run: str) -> None:
    path = "/" + f"{run}a" * 300
    assert not overlap(f"{path}b", f"{path}c")
    assert overlap(f"{path}b", f"{path}*")


def test_paths_count_as_overlapping_if_comparing_them_takes_too_long() -> None:
    one, other = "/**" + "ab" * 200 + "*b", "/**" + "ab" * 200 + "a*c"
    several = Overlaps()
    assert not several.may_overlap(one, other)
    assert any(several.may_overlap(one, other) for _ in range(MAX_STEPS // 400))


def test_segments_are_compared_one_by_one_without_double_stars() -> None:
    assert not may_overlap("/a/b", "/a/b/c")
    assert may_overlap("/" + "/".join(["{x}"] * 100), "/" + "/".join(["y"] * 100))

"""The pages find their own cookies among all cookies that a browser sends."""

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.pages.connect_cookie import cookies_of


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", {}),
        ("gw-connect-1=a", {"gw-connect-1": "a"}),
        ("other=1; __Host-gw-flow-2=b=c ;gw-x=", {"__Host-gw-flow-2": "b=c", "gw-x": ""}),
        ("a b; ;=; é=1; gw-x=1; gw-x=2", {"gw-x": "2"}),
        ("xgw-x=1; gw_x=2; __host-gw-x=3", {}),
    ],
)
def test_own_cookies_are_found_among_others_and_malformed_ones(field: str, expected: dict[str, str]) -> None:
    assert cookies_of(make_mocked_request("GET", "/", headers={"Cookie": field})) == expected


def test_request_without_cookies_has_none() -> None:
    assert cookies_of(make_mocked_request("GET", "/")) == {}


@pytest.mark.parametrize("space", ["\u00a0", "\u0085", "\u1680", "\u2000", "\u2028", "\u3000"])
@pytest.mark.parametrize("name", ["__Host-gw-console", "gw-flow-1"])
def test_name_after_another_white_space_is_another_name(space: str, name: str) -> None:
    """A browser lets any host below the gateway's domain set such a cookie: its name does not begin with `__Host-`."""
    for field in (f"{space}{name}=planted", f"{name}=own; {space}{name}=planted", f"{name}=own;{space}{name}=planted"):
        found = cookies_of(make_mocked_request("GET", "/", headers={"Cookie": field}))
        assert found == ({name: "own"} if "own" in field else {})

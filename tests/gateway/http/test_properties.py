"""Properties for all headers, paths and links: filtering is idempotent, and a rewritten link leads back to its
original."""

from collections import Counter

from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.http.headers import (
    FOR_GATEWAY,
    FRAMING,
    HOP_BY_HOP,
    PROXY_PREFIX,
    Fields,
    decoded_fields,
    normalized_name,
    request_fields,
    response_fields,
)
from gateway.http.references import LinkRewriter
from gateway.http.url import ProxiedTarget, has_dot_segment, join_target, origin_form, parse_proxied_target, with_query
from gateway.origin import ParsedUrl

KNOWN_NAMES = sorted(
    HOP_BY_HOP | FRAMING | FOR_GATEWAY | {"authorization", "nango-x", "gateway-y", "x-forwarded-for", "cookie"}
)
TOKENS = st.text("abXY-_.!", min_size=1, max_size=8)


@st.composite
def field_names(draw: st.DrawFn) -> str:
    """Draw a known or unknown name, in mixed case, with some `_` for `-`, and sometimes with minting prefixes."""
    name = draw(st.one_of(st.sampled_from(KNOWN_NAMES), TOKENS))
    letters = [
        letter.upper() if draw(st.booleans()) else "_" if letter == "-" and draw(st.booleans()) else letter
        for letter in name
    ]
    return draw(st.sampled_from(["", PROXY_PREFIX, "NANGO-PROXY-", PROXY_PREFIX * 2, "Nango_Proxy_"])) + "".join(
        letters
    )


VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=8)
FIELDS: st.SearchStrategy[Fields] = st.lists(st.tuples(field_names(), VALUES), max_size=10)
NEVER_SENT = HOP_BY_HOP | FRAMING | FOR_GATEWAY


@given(FIELDS)
@example([("Nango-Proxy-Host", "evil"), ("Nango-Proxy-Nango-Proxy-Host", "evil"), ("nango-proxy-Content_Length", "3")])
def test_nango_proxy_headers_never_set_framing_host_or_gateway_fields(fields: Fields) -> None:
    for name, _ in request_fields(fields):
        assert normalized_name(name) not in NEVER_SENT
        assert not normalized_name(name).startswith(("nango-", "gateway-", "x-forwarded-"))
        assert name


@given(FIELDS)
def test_filtering_a_request_twice_is_filtering_it_once(fields: Fields) -> None:
    once = request_fields(fields)
    minted = [
        field for field in once if normalized_name(field[0]) == "authorization"
    ]  # as the caller's own, it would be removed
    assert request_fields(once) == [field for field in once if field not in minted]


@given(FIELDS)
def test_every_forwarded_value_was_sent_once_by_the_caller(fields: Fields) -> None:
    forwarded = Counter(value for _, value in request_fields(fields))
    assert forwarded <= Counter(value for _, value in fields)


@given(FIELDS)
def test_filtering_a_response_twice_is_filtering_it_once(fields: Fields) -> None:
    once = response_fields(fields)
    assert response_fields(once) == once
    rest = iter(fields)
    assert all(field in rest for field in once)  # in order, and nothing added


@given(FIELDS)
def test_decoded_response_has_no_digest_of_coded_bytes_and_no_strong_etag(fields: Fields) -> None:
    decoded = decoded_fields([*fields, ("Content-Encoding", "gzip"), ("eTag", '"x"')])
    names = {name.lower() for name, _ in decoded}
    assert "content-encoding" not in names
    assert all(value.startswith("W/") for name, value in decoded if name.lower() == "etag")


VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#\\"), max_size=30)
PATHS = VISIBLE.map(lambda text: "/" + text.replace("?", "")).filter(lambda path: not has_dot_segment(path))
BASES = st.sampled_from(["", "/v1", "/a%2Fb/c"])


@given(PATHS, VISIBLE, BASES)
def test_rewritten_link_reaches_the_original_target(path: str, query: str, base: str) -> None:
    base_url = ParsedUrl("https", "api.example.com", 443, base)
    target = f"{base}{path}?{query}"
    shown = LinkRewriter(base_url, "https://gw.example/proxy").rewrite_reference(f"https://api.example.com{target}")
    assert shown.startswith("https://gw.example/proxy/")
    asked = origin_form(shown, "gw.example")
    assert join_target(base, parse_proxied_target(asked, "/proxy")) == target


@given(PATHS, VISIBLE, BASES)
def test_target_sent_to_the_provider_is_rewritten_back(path: str, query: str, base: str) -> None:
    target = join_target(base, ProxiedTarget(path, f"?{query}"))
    assume(not target.startswith("//"))  # that would be a reference to another host (RFC 3986 §4.2)
    shown = LinkRewriter(
        ParsedUrl("https", "api.example.com", 443, base), "https://gw.example/proxy"
    ).rewrite_reference(target)
    assert shown == f"https://gw.example/proxy{path}?{query}"


PAIRS = st.lists(
    st.tuples(st.sampled_from(["key", "k%65y", "KEY", "a", ""]), st.sampled_from(["", "1", "%2f+"])), max_size=5
)


@given(PAIRS)
def test_query_slot_is_present_once_however_often_it_is_set(pairs: list[tuple[str, str]]) -> None:
    target = "/x?" + "&".join(f"{name}={value}" for name, value in pairs)
    once = with_query(target, [("key", "secret")], [])
    assert with_query(once, [("key", "secret")], []) == once
    assert once.count("secret") == 1
    kept = [f"{name}={value}" for name, value in pairs if name not in ("key", "k%65y")]
    assert once == "/x?" + "&".join([*kept, "key=secret"])

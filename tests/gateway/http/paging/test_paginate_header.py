"""The values of Gateway-Paginate, and the errors for wrong ones."""

import pytest

from gateway.http.paging.paginate_header import PaginateHeader, parse_paginate_header


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", PaginateHeader(None, {})),
        (" 12 ", PaginateHeader(12, {})),
        ("all;marks", PaginateHeader(None, {}, marks=True)),
        ("all; marks=?0", PaginateHeader(None, {})),
        ("3; limit=50; marks=?1", PaginateHeader(3, {}, limit=50, marks=True)),
        ("all; type=cursor;cursor_path_in_response=a.b", PaginateHeader(None, {"type": "cursor", "cursor_path_in_response": "a.b"})),
        ('all; limit_name="page[size]"; cursor_path="-1.id"', PaginateHeader(None, {"limit_name": "page[size]", "cursor_path": "-1.id"})),
        ("all; limit_name=$top; link_path=@odata.nextLink", PaginateHeader(None, {"limit_name": "$top", "link_path": "@odata.nextLink"})),
        ('all; response_path=""', PaginateHeader(None, {"response_path": ""})),
        (r'all; response_path="a\"b\\c;d, e"', PaginateHeader(None, {"response_path": 'a"b\\c;d, e'})),
        ("all; cursor_path=a.0.b.-1.c.d.0.e.f.0id", PaginateHeader(None, {"cursor_path": "a.0.b.-1.c.d.0.e.f.0id"})),
        ("all; cursor_path=-1.id", PaginateHeader(None, {"cursor_path": "-1.id"})),
    ],
)  # fmt: skip
def test_paginate_header_is_parsed(text: str, expected: PaginateHeader) -> None:
    assert parse_paginate_header(text) == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must begin with 'all' or a number"),
        ("ALL", "must begin with"),
        ("0", "must begin with"),
        ("-1", "must begin with"),
        ("1.5", "cannot be read from '.5'"),
        ("all, all", "cannot be read from ', all'"),
        ("all type=cursor", "cannot be read from 'type=cursor'"),
        ("all; type", "has type without a value"),
        ("all; Type=cursor", "cannot be read from '; Type"),
        ("all; type=cursor; type=link", "has type twice"),
        ('all; a="b', "cannot be read from"),
        (r'all; a="\n"', "cannot be read from"),
        ("all; a=b c", "cannot be read from 'c'"),
        ("all; limit=0", "limit that is not a number"),
        ("all; limit", "limit that is not a number"),
        ("all; marks=maybe", "has marks=maybe"),
        ("all;", "cannot be read from ';'"),
        ("all; response_path=" + "a" * 256, "has response_path with more than 255 characters"),
        ("all; response_path=a" + ".a" * 10, "has response_path with more than 10 steps"),
        ("all; cursor_path=0.-1.a.0.b.1", "has cursor_path with more than 3 numbers"),
    ],
)
def test_error_in_the_paginate_header_is_located(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r".+") as raised:
        parse_paginate_header(text)
    assert fault in str(raised.value)

"""The root fields that a GraphQL document requests, and the documents that are refused."""

import pytest

from gateway.http.graphql_document import MAX_CHARS, MAX_DEPTH, AmbiguousDocument, GraphqlOperation, operation_of


@pytest.mark.parametrize(
    ("document", "kind", "name", "fields"),
    [
        ("{ viewer { login } }", "query", "", ("viewer",)),
        ("query { a b }", "query", "", ("a", "b")),
        ("query Named($id: ID! = 3, $more: [Int!]!) @cached(for: 3) { a(id: $id) }", "query", "Named", ("a",)),
        ("mutation Harmless { issueDelete(id: 1) { success } }", "mutation", "Harmless", ("issueDelete",)),
        ("query { viewer: deleteAll }", "query", "", ("deleteAll",)),
        ("{ ...F } fragment F on Query { a ...G } fragment G on Query { b ...F }", "query", "", ("a", "b")),
        ("{ ... on Query { a } ... @include(if: true) { b } ... { c } }", "query", "", ("a", "b", "c")),
        ('{ a @skip(if: true) b(x: {y: [1, -2.5e3, "}", ENUM, null]}) { c } }', "query", "", ("a", "b")),
        ("# first\r\n{ a # } mutation { b }\n b }", "query", "", ("a", "b")),
        ('{ a(x: "\\"} mutation { b }") }', "query", "", ("a",)),
        ("{ query mutation fragment on }", "query", "", ("query", "mutation", "fragment", "on")),
        ("subscription { changed }", "subscription", "", ("changed",)),
        ("{ a a: b a }", "query", "", ("a", "b")),
    ],
)
def test_kind_name_and_root_fields_are_read(document: str, kind: str, name: str, fields: tuple[str, ...]) -> None:
    found = operation_of(document)
    assert (found.kind, found.name, set(found.fields)) == (kind, name, set(fields))
    assert isinstance(found, GraphqlOperation)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "# nothing",
        "{}",
        "{ a",
        "{ a } }",
        "{ a ) }",
        "query { a } query { b }",
        "query A { a } mutation B { b }",
        "{ a } mutation { b }",
        "fragment F on Query { a }",
        "{ ...Missing }",
        "{ ...F } fragment F on Query { a } fragment F on Mutation { b }",
        "{ ...on } fragment on on Query { a }",
        "{ ...F } fragment F($x: Int) on Query { a }",
        "extend type Query { a: Int } { a }",
        "schema { query: Query }",
        '{ a(x: """ text """) }',
        '{ a(x: "unfinished) }',
        '{ a(x: "line\nline") }',
        "{ a(x: 1b) }",
        "{ a(x: 01) }",
        "{ a(x: '1') }",
        "{ a: b: c }",
        "{ a! }",
        "{ a? }",
        "{ [a] }",
        "{ $a }",
        "{ a \u2028 b }",
        "{ a # comment \u2029 b\n }",
        "{ a # comment \x85 b\n }",
        "{ a # comment \r b }",
        "\ufeff{ a }",
        "{ a\x00 }",
        "{ а }",  # a Cyrillic letter
        "query on { a } { b }",
        "{ a(x: [)] }",
        "{" * (MAX_DEPTH + 2) + "a" + "}" * (MAX_DEPTH + 2),
        "{ a" + "{ a" * (MAX_DEPTH + 2) + "}" * (MAX_DEPTH + 3),
        "{ a }" + " " * MAX_CHARS,
        "{ ... " * (MAX_DEPTH + 2) + "}" * (MAX_DEPTH + 2),
    ],
)
def test_ambiguous_document_is_refused(document: str) -> None:
    with pytest.raises(AmbiguousDocument):
        operation_of(document)


def test_long_document_is_read_quickly() -> None:
    refused = 0
    for text in ("{ a " + "a " * 9_000 + "}", "{ a(x: " + "[" * 30_000, '"' * 60_000, "#" * 60_000, "{ ...a" * 9_000):
        try:
            operation_of(text)
        except AmbiguousDocument:
            refused += 1
    assert refused == 4

"""What a key may do: scopes, limits and the path patterns of its rules, as pure decisions (docs/keys.md, ADR 26)."""

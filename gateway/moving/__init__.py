"""Moving in and out: connections of another gateway, of files, and of our own bundles (docs/moving.md)."""

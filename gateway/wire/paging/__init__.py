"""Pages of a list: their records cut out of the JSON they came in, and where the next one lies. No I/O."""

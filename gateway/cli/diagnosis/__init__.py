"""What `gateway doctor` looks at: one subject a file, each a function from a `Patient` to its findings."""

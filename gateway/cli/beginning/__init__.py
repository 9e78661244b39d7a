"""What `gateway init` makes: the answers it needs, and the configuration that comes of them."""

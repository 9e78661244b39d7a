"""Where an entry's provider tells whose account a credential belongs to."""

from pydantic import Field

from gateway.catalog.shape import Shape


class AccountForm(Shape):
    """Who authorized. What is not said here is still found in an `id_token`, or by the post-connection script."""

    endpoint: str | None = None
    """Path below `proxy.base_url` that tells it, asked once with the new credential. Absent: the token answer tells it."""
    id: str | None = None
    """Dotted path to what never changes for one account. A reconnect with another one is refused."""
    label: list[str] = Field(default_factory=list)
    """Dotted paths to what people know the account by; the first that is there is taken."""

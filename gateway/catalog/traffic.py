"""How a provider's API is called: base address, what goes on every request, paging, retry, proof of a credential."""

from typing import Any, Literal

from pydantic import Field

from gateway.catalog.shape import Shape, Status


class Paginate(Shape):
    """How the provider cuts long lists (requirement 2.1)."""

    type: Literal["cursor", "link", "offset"]
    """`cursor`: the answer names the next page; `link`: it holds the next address; `offset`: the caller counts."""
    cursor_path_in_response: str | None = None
    """Dotted path in the answer to the next page's cursor. `-1` is the last item of an array."""
    limit_name_in_request: str | None = None
    """Query parameter that carries the page size."""
    cursor_name_in_request: str | None = None
    """Query parameter that carries the cursor."""
    response_path: str | None = None
    """Dotted path in the answer to the array of records. Absent: the answer is the array, or it differs by resource."""
    has_more_path_in_response: str | None = None
    """Dotted path to the flag that says whether another page follows."""
    link_rel_in_response_header: str | None = None
    """Relation of the next page in the `Link` field (RFC 8288)."""
    link_path_in_response_body: str | None = None
    """Dotted path in the answer to the next page's address."""
    offset_name_in_request: str | None = None
    """Query parameter that carries the offset."""
    offset_start_value: int | None = None
    """The first page's offset, 0 if absent."""
    offset_calculation_method: Literal["per-page", "by-response-size"] | None = None
    """Whether the offset counts pages or records."""
    applies_to: str | None = None
    """For an alternative: where it holds, in words."""
    note: str | None = None
    """What else to know, in words."""


class Retry(Shape):
    """Where the provider says when to come back, and which statuses mean it. `Retry-After` is always honoured."""

    after: list[str] | str | None = None
    """Names of header fields that hold seconds or a date."""
    at: list[str] | str | None = None
    """Names of header fields that hold the time itself, as epoch seconds or as a date."""
    remaining: str | None = None
    """Name of the header field that counts the calls left; 0 means wait."""
    error_code: list[Status] | None = None
    """Statuses that mean it: `429`, `5xx`, `500-502`. They replace the usual ones."""


class Verification(Shape):
    """A cheap call that proves a credential."""

    method: Literal["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE"] = "GET"
    """The request's method."""
    endpoints: list[str]
    """Paths below the base address, tried in turn until one answers 2xx."""
    base_url_override: str | None = None
    """Another base address for these calls."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Fields to add, templates allowed."""
    data: dict[str, Any] | str | None = None
    """Body: an object goes as JSON, or as a form where `headers` say so; text goes as it is. Templates allowed."""


class Proxy(Shape):
    """Where proxied requests go and what is put on them."""

    base_url: str
    """Address to which the path of `/proxy/…` is appended. Placeholders allowed."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header fields. One that holds a credential placeholder replaces the caller's; any other is only a default."""
    query: dict[str, str] = Field(default_factory=dict)
    """Query parameters, under the same rule."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Members put into a JSON object or form that the caller sends, under the same rule; templates in texts."""
    decompress: bool | None = None
    """Whether compressed answers are unpacked for the caller."""
    paginate: Paginate | None = None
    """How long lists are cut."""
    paginate_alternatives: list[Paginate] | None = None
    """Other ways of paging that some of its resources use."""
    retry: Retry | None = None
    """Where it says when to come back."""
    verification: Verification | None = None
    """A cheap call that proves a credential."""
    allowed_origins: list[str] = Field(default_factory=list)
    """Further origins that a `Base-Url-Override` may name; the credential travels there."""
    path_form: str | None = None
    """What a path on this provider looks like, for people: `/ex/jira/${connectionConfig.cloudId}/…`."""

"""A setting: one value that a connection or a credential consists of, as a form field and as a rule for its value."""

from typing import Any, Literal

from gateway.catalog.shape import Shape


class VisibleWhen(Shape):
    """Show a field only while another one has a certain value."""

    field: str
    """Name of the other setting."""
    equals: str
    """The value at which this one is shown."""


class Setting(Shape):
    """One value that a connection needs: a form field, or, where `automated`, set by the service itself."""

    type: Literal["string"] = "string"
    """Always `string`."""
    title: str = ""
    """Label of the form field. Made from the setting's name if left out."""
    description: str | None = None
    """One sentence below the field: where to find the value."""
    example: str | None = None
    """A value of the right form that belongs to nobody."""
    pattern: str | None = None
    """Regular expression that the whole value must match."""
    enum: list[str] | None = None
    """The only values allowed."""
    format: Literal["hostname", "uri", "uuid", "email"] | None = None
    """What kind of text. Only a `hostname` may bring dots into a host; only a `uri` may be a whole address."""
    default_value: str | None = None
    """Taken where the connection has no value."""
    prefix: str | None = None
    """Shown before the field, for example `https://`. Never part of the value."""
    suffix: str | None = None
    """Shown after the field, for example `.example.com`. Never part of the value."""
    doc_section: str | None = None
    """Anchor in `docs_connect` where this value is explained."""
    order: int | None = None
    """Place in the form, counted from 0."""
    optional: bool = False
    """Whether the end user may leave it empty."""
    secret: bool = False
    """Whether it is sealed in the store and masked everywhere."""
    hidden: bool = False
    """Whether the form leaves it out."""
    any_host: bool = False
    """Whether it may name any host, as for software that people run themselves. The credential goes there."""
    automated: bool = False
    """Whether the service sets it, so that nobody is asked."""
    visible_when: VisibleWhen | None = None
    """Show it only while another setting has a certain value."""


def with_titles(forms: Any) -> Any:
    """`forms` as it came from YAML, each setting that has no title given one made from its name."""
    if not isinstance(forms, dict):
        return forms
    return {name: _with_title(name, form) for name, form in forms.items()}


def _with_title(name: Any, form: Any) -> Any:
    if form is None:
        form = {}
    return {"title": title_from(str(name)), **form} if isinstance(form, dict) else form


def title_from(name: str) -> str:
    """``cloudId`` ▸ ``Cloud ID``, ``instance_url`` ▸ ``Instance URL``."""
    spaced = "".join(f" {c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name))
    words = spaced.replace("_", " ").replace("-", " ").replace(".", " ").split()
    shown = [word.upper() if word.lower() in {"id", "url", "api", "uri"} else word.lower() for word in words]
    return " ".join([shown[0] if shown[0].isupper() else shown[0].capitalize(), *shown[1:]]) if shown else name

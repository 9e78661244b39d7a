"""What `/providers` shows of an entry: what its file says, and the two fields we fill in (requirement 2.1)."""

from typing import Any

from gateway.catalog.provider import Provider

LOGOS = "/images/template-logos"
_FORMS = ("connection_config", "credentials", "assertion_option")
_OUR_OWN = frozenset({"alias"})  # what it inherits stands in it already


def show(provider: Provider, public_url: str) -> dict[str, Any]:
    """`provider` as JSON. A field that the file leaves out is absent, never null.

    `logo_url` and `docs` are ours where the entry has none; `connection_configuration` is always an array of names.
    """
    said = provider.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    said["logo_url"] = provider.logo_url or f"{public_url}{LOGOS}/{provider.name}.svg"
    if names := provider.setting_names():
        said["connection_configuration"] = list(names)
    if provider.docs is None:
        said["docs"] = f"{public_url}/providers/{provider.name}/guide"
    for forms in _FORMS:
        for form in said.get(forms, {}).values():
            form.setdefault("type", "string")  # form builders read it
    return {key: said[key] for key in Provider.model_fields if key in said and key not in _OUR_OWN}

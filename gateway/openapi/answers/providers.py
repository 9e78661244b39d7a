"""The catalog's entries."""

from pydantic import BaseModel, ConfigDict

from gateway.openapi.answers.model import Absent, Answer


class Provider(BaseModel):
    """An entry of the catalog: these fields, and whatever else its file says."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    name: str
    display_name: str
    logo_url: str
    categories: list[str]
    auth_mode: str
    docs: str


class ProviderAnswer(Answer):
    data: Provider


class ProviderList(Answer):
    data: list[Provider]
    next_cursor: str | Absent = None

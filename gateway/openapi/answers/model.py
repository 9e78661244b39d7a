"""What every model of an answer is made from."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

Absent = SkipJsonSchema[None]  # a member that is left out rather than null
Moment = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+00:00)$",
        examples=["2026-01-02T03:04:05.678+00:00"],
        json_schema_extra={"format": "date-time"},
    ),
]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

"""What all shapes of the catalog have in common."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Shape(BaseModel):
    """Unknown keys are a fault: a misspelt key that is silently ignored costs an afternoon.

    The text under a field is its description in the JSON Schema, which editors show.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


# A status or a status range: YAML reads 429 as a number, 5xx as text.
Status = Annotated[str, BeforeValidator(_number_as_text)]

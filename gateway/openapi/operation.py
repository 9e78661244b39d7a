"""One route as it is told of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from gateway.errors import Code

Who = Literal["key", "session", "open"]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the query, or a header. `schema`: JSON Schema. `style` ``deepObject`` is ``name[key]=value``."""

    name: str
    says: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False
    style: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """`path` spells its parameters ``{name}``; `method` ``*`` is any.

    `who` may call: the holder of a secret key with `scope`, an end user's browser with a connect session, or anybody.
    `errors`: what this route adds to the codes that every one has; with a status where it is not the code's usual one.
    `also`: other good statuses, without a body. `content` is the type of an answer that is no JSON. `example`: a body to
    show and to try with.
    """

    method: str
    path: str
    summary: str
    group: str
    answer: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    errors: tuple[Code | tuple[Code, int], ...] = ()
    scope: str | None = None
    who: Who = "key"
    status: int = 200
    also: tuple[int, ...] = ()
    content: str = "application/json"
    more: str = ""
    example: Any = None
    deprecated: bool = False

    @property
    def id(self) -> str:
        """``get_connections_connection_id``: a name for generated clients and for links."""
        words = "".join(char if char.isalnum() else " " for char in self.path).split()
        end = ["index"] if self.path.endswith("/") else []
        return "_".join(["any" if self.method == "*" else self.method.lower(), *words, *end]).lower()

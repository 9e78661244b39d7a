"""The parts of the Compose specification that the deploy files use.

The checks are as strict as Docker's, and stricter where security requires it.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Duration = Annotated[str, StringConstraints(pattern=r"^(\d+(us|ms|s|m|h))+$")]
Size = Annotated[str, StringConstraints(pattern=r"^\d+[bkmg]b?$")]
Port = Annotated[str, StringConstraints(pattern=r"^(\d+(\.\d+){3}:)?\d+:\d+$")]
# The tag must name a version. No tag, or a tag such as `latest`, may mean another image next week.
Image = Annotated[str, StringConstraints(pattern=r"^[a-z0-9./-]+:\d+(\.\d+)*(-[a-z0-9.]+)?$")]
VARIABLE: Final = re.compile(r"(?<!\$)\$\{([A-Z_]+)(:\?[^}]+)?\}")


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Build(Part):
    context: str
    dockerfile: str


class Bind(Part):
    create_host_path: Literal[False]


class Volume(Part):
    type: Literal["bind", "volume"]
    source: str
    target: str
    read_only: bool = False
    bind: Bind | None = None


class EnvFile(Part):
    path: str
    required: bool


class Healthcheck(Part):
    test: list[str] = Field(min_length=2)
    interval: Duration
    timeout: Duration
    start_period: Duration
    start_interval: Duration
    retries: int


class Dependency(Part):
    condition: Literal["service_healthy"]


class Address(Part):
    ipv4_address: str


class Logging(Part):
    driver: Literal["json-file"]
    options: dict[str, str]


class Service(Part):
    image: Image
    build: Build | None = None
    profiles: list[str] = []
    entrypoint: list[str] | None = None
    user: str | None = None
    read_only: bool = False
    cap_drop: list[Literal["ALL"]] = []
    security_opt: list[Literal["no-new-privileges:true"]] = Field(min_length=1)
    tmpfs: list[str] = []
    ports: list[Port] = []
    environment: dict[str, str] = {}
    env_file: list[EnvFile] = []
    volumes: list[Volume] = []
    networks: dict[str, Address] = {}
    network_mode: Literal["none"] | None = None
    depends_on: dict[str, Dependency] = {}
    healthcheck: Healthcheck | None = None
    restart: Literal["unless-stopped"] | None = None
    stop_signal: str | None = None
    stop_grace_period: Duration | None = None
    shm_size: Size | None = None
    ulimits: dict[str, int] = {}
    pids_limit: int | None = None
    logging: Logging | None = None


class Subnet(Part):
    subnet: str


class Ipam(Part):
    config: list[Subnet]


class Network(Part):
    ipam: Ipam


class Compose(Part):
    name: str
    services: dict[str, Service]
    volumes: dict[str, dict[str, Any]] = {}
    networks: dict[str, Network] = {}


def read(path: Path) -> Compose:
    """Return the file as Compose reads it, before variables are filled in. Raises ValidationError."""
    document = yaml.safe_load(path.read_text())
    return Compose.model_validate({key: value for key, value in document.items() if not key.startswith("x-")})

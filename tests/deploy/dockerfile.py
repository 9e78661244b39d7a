"""Parses a Dockerfile into stages of instructions. Knows only the grammar that the repository's Dockerfile uses."""

import fnmatch
import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[2]
FILE: Final = TOP / "deploy" / "Dockerfile"
IGNORED: Final = FILE.with_name("Dockerfile.dockerignore")


@dataclass(slots=True)
class Stage:
    """A stage. `base`: the image that it starts from. `steps`: its other instructions, as (instruction, text)."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [text for kind, text in self.steps if kind == instruction]

    def command(self, instruction: str) -> list[str]:
        """Return the words of an ENTRYPOINT or CMD, which must be in the form without a shell."""
        words: list[str] = json.loads(self.all(instruction)[-1])
        return words

    def environment(self) -> dict[str, str]:
        pairs = (word.split("=", 1) for text in self.all("ENV") for word in shlex.split(text))
        return {pair[0]: pair[1] for pair in pairs}


def stages(path: Path = FILE) -> list[Stage]:
    found: list[Stage] = []
    for line in _instructions(path):
        instruction, _, text = line.partition(" ")
        if instruction == "FROM":
            base, _, name = text.partition(" AS ")
            found.append(Stage(base, name))
        else:
            found[-1].steps.append((instruction, text.strip()))
    return found


def _instructions(path: Path) -> Iterator[str]:
    instruction = ""
    for line in path.read_text().splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            instruction += line.removesuffix("\\").strip() + " "
            if not line.endswith("\\"):
                yield instruction.strip()
                instruction = ""


def in_context(path: Path) -> bool:
    """Return whether `path`, relative to the repository, is sent to the builder. The last matching line of the ignore
    file decides.
    """
    sent = True
    for line in IGNORED.read_text().splitlines():
        pattern = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        name_pattern = pattern.removeprefix("**/")
        matches = any(
            fnmatch.fnmatch(part.name, name_pattern) if pattern != name_pattern else fnmatch.fnmatch(str(part), pattern)
            for part in (path, *path.parents[:-1])
        )
        if matches:
            sent = line.startswith("!")
    return sent


def copy(sources: list[str], target: Path) -> None:
    """Copy from the repository as COPY does, without the files that the ignore file excludes."""
    for name in sources:
        source = TOP / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=_left_out)
        else:
            assert in_context(Path(name)), name
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def _left_out(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not in_context((Path(folder) / name).relative_to(TOP))]

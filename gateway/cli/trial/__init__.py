"""What `gateway try` is made of: which gateway, which connection, the call, and what is told of it."""


class TrialFailed(Exception):
    """There is nothing to show. `lines` say why and what to do; the first one is the fault itself.

    `told` is the same for programs.
    """

    def __init__(self, *lines: str, told: dict[str, object] | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.told = told or {"message": lines[0], "hints": list(lines[1:])}

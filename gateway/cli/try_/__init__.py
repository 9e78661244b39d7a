"""``gateway try``: one call through a running gateway, shown in full.

    try_command    the command: from what was typed to the call and its report
    try_target     which running gateway, key, connection and call, where they were left out
    try_output     what is printed: the request, the answer, where the time went
    try_snippets   the same call as curl, Python and Node
    refused_call   why the gateway refused a call, and the next step that works

The folder has an underscore because `try` is a keyword.

Always true: no secret is printed, in snippets either.
"""


class TrialFailed(Exception):
    """There is nothing to show. `lines` say why and what to do; the first one is the fault itself.

    `report` is the same for programs.
    """

    def __init__(self, *lines: str, report: dict[str, object] | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.report = report or {"message": lines[0], "hints": list(lines[1:])}

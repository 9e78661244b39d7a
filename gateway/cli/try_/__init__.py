"""``gateway try``: one call through a running gateway, shown in full.

    try_command    the command: makes the call and reports on it
    try_target     finds the running gateway, key, connection and path that the command line leaves out
    try_output     the output: the request, the response, the timing
    try_snippets   the same call as curl, Python and Node
    refused_call   why the gateway refused a call, and what to do

The folder has an underscore because `try` is a keyword.

Always true: no secret is printed, not even in snippets.
"""


class TrialFailed(Exception):
    """Raised if the call has no response to show. `lines`: first what went wrong, then what to do.

    `report`: the same as JSON, for programs.
    """

    def __init__(self, *lines: str, report: dict[str, object] | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.report = report or {"message": lines[0], "hints": list(lines[1:])}

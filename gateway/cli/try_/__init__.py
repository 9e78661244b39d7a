"""``gateway try``: one call through a running gateway, shown in full.

    try_command    the command: sends the call, and shows the request and the response
    try_target     finds the gateway, key, connection and path that the user does not name
    try_output     formats the request, the response and the timing
    try_snippets   formats the same call as curl, Python and Node
    refused_call   explains why the gateway refused a call, and what to do

The folder's name ends with an underscore because `try` is a keyword of Python.

Always true: no secret is printed, not even in snippets.
"""


class TrialFailed(Exception):
    """The call has no response to show.

    `lines`: first what went wrong, then what to do.
    `report`: the same content as JSON, for programs.
    """

    def __init__(self, *lines: str, report: dict[str, object] | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.report = report or {"message": lines[0], "hints": list(lines[1:])}

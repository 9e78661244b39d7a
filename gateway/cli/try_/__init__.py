"""``gateway try``: one call through a running gateway, and all there is to know about it.

    try_command.py   ``gateway try``: one call through a running gateway, from what was typed to all there is to
                     know about it.
    try_target.py    Which running gateway and key, which connection and call, where they were left out.
    try_output.py    What `gateway try` prints for people: the request, the answer, where the time went.
    try_snippets.py  The call once more, to be pasted; its body.
    refused_call.py  Why the gateway refused a call, and the next step that works: near names, what there is, the
                     link to authorize again.

Always true: no secret is printed.
"""


class TrialFailed(Exception):
    """There is nothing to show. `lines` say why and what to do; the first one is the fault itself.

    `told` is the same for programs.
    """

    def __init__(self, *lines: str, told: dict[str, object] | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.told = told or {"message": lines[0], "hints": list(lines[1:])}

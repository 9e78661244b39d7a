"""An agent's script solves each of twenty help desk tickets with at most two calls of the demo's tools."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from gateway.sandbox.tracker import Tracker, TrackerIssue
from tests.journeys.test_demo import demo

MAX_CALLS: Final = 2
KEYS: Final = "issues[].key"
MAX_BYTES: Final = 20_000  # maximum size of a response, because a response fills the context of a model
Call = tuple[str, dict[str, Any]]
Issues = list[TrackerIssue]


@dataclass(frozen=True)
class Ticket:
    """A ticket. `first`: the first call. `then`: returns the second call, based on the first response.

    `solution`: returns the solution, based on the last response. `expected`: returns the solution, based on the content
    of the sandbox.
    """

    text: str
    first: Call
    solution: Callable[[Any], Any]
    expected: Callable[[Issues], Any]
    then: Callable[[Any], Call] | None = None


def search(jql: str, select: str = "", **query: Any) -> Call:
    return "search_issues", {"query": {"jql": jql, **query}, **({"select": select} if select else {})}


def issue(key: str, select: str = "") -> Call:
    return "get_issue", {"key": key, **({"select": select} if select else {})}


def create(summary: str, kind: str) -> Call:
    fields = {"project": {"key": "ACME"}, "summary": summary, "issuetype": {"name": kind}}
    return "create_issue", {"body": {"fields": fields}}


def issue_of_key(issues: Issues, key: str) -> TrackerIssue:
    return next(issue for issue in issues if issue.key == key)


def newest(issues: Issues) -> Issues:
    return sorted(issues, key=lambda issue: -issue.created_at)


TICKETS: Final = (
    Ticket(
        "How is ACME-7 going?",
        issue("ACME-7", "fields.status.name"),
        str,
        lambda issues: issue_of_key(issues, "ACME-7").status,
    ),
    Ticket(
        "What is ACME-12 about?",
        issue("ACME-12", "fields.summary"),
        str,
        lambda issues: issue_of_key(issues, "ACME-12").summary,
    ),
    Ticket(
        "Is ACME-3 a bug?",
        issue("ACME-3"),
        lambda response: response["fields"]["issuetype"]["name"] == "Bug",
        lambda issues: issue_of_key(issues, "ACME-3").issue_type == "Bug",
    ),
    Ticket(
        "Who is assigned to ACME-4?",
        issue("ACME-4", "fields.assignee.accountId"),
        str,
        lambda issues: issue_of_key(issues, "ACME-4").assignee,
    ),
    Ticket(
        "Is anybody assigned to ACME-6?",
        issue("ACME-6"),
        lambda response: response["fields"]["assignee"] is not None,
        lambda issues: issue_of_key(issues, "ACME-6").assignee is not None,
    ),
    Ticket(
        "How many issues are to do?",
        search('status = "To Do"', "total", maxResults=1),
        int,
        lambda issues: sum(issue.status == "To Do" for issue in issues),
    ),
    Ticket(
        "How many bugs are there?",
        search("issuetype = Bug", "total", maxResults=1),
        int,
        lambda issues: sum(issue.issue_type == "Bug" for issue in issues),
    ),
    Ticket(
        "Which bugs are in progress?",
        search('issuetype = Bug AND status = "In Progress" ORDER BY key', KEYS),
        list,
        lambda issues: [
            issue.key
            for issue in sorted(issues, key=lambda issue: issue.number)
            if (issue.issue_type, issue.status) == ("Bug", "In Progress")
        ],
    ),
    Ticket(
        "What is the newest issue?",
        search("", "issues[0].key", maxResults=1),
        str,
        lambda issues: newest(issues)[0].key,
    ),
    Ticket(
        "What is the oldest issue?",
        search("ORDER BY created ASC", "issues[0].key", maxResults=1),
        str,
        lambda issues: newest(issues)[-1].key,
    ),
    Ticket(
        "What are the five newest issues and their statuses?",
        search("", "issues[].{k: key, s: fields.status.name}", maxResults=5),
        lambda response: [(row["k"], row["s"]) for row in response],
        lambda issues: [(issue.key, issue.status) for issue in newest(issues)[:5]],
    ),
    Ticket(
        "Which issues are about a currency?",
        search("", "issues[?contains(fields.summary, 'currency')].key", maxResults=100),
        list,
        lambda issues: [issue.key for issue in newest(issues) if "currency" in issue.summary],
    ),
    Ticket(
        "How many issues does each person have?",
        search("assignee != empty", "issues[].fields.assignee.accountId", maxResults=100),
        Counter,
        lambda issues: Counter(issue.assignee for issue in issues if issue.assignee),
    ),
    Ticket(
        "Which stories are done?",
        search("issuetype = Story AND status = Done", KEYS, maxResults=100),
        list,
        lambda issues: [issue.key for issue in newest(issues) if (issue.issue_type, issue.status) == ("Story", "Done")],
    ),
    Ticket(
        "What else did the reporter of ACME-9 report?",
        issue("ACME-9", "fields.reporter.displayName"),
        len,
        lambda issues: sum(issue.reporter == issue_of_key(issues, "ACME-9").reporter for issue in issues),
        lambda name: search(f'reporter = "{name}"', KEYS, maxResults=100),
    ),
    Ticket(
        "What is the status of the oldest unassigned task?",
        search("issuetype = Task AND assignee = empty ORDER BY created ASC", "issues[0].key", maxResults=1),
        lambda response: response["fields"]["status"]["name"],
        lambda issues: (
            next(
                issue for issue in reversed(newest(issues)) if issue.issue_type == "Task" and issue.assignee is None
            ).status
        ),
        issue,
    ),
    Ticket(
        "Which issues are on the second page of 50?",
        search("ORDER BY created DESC", KEYS, maxResults=50),
        list,
        lambda issues: [issue.key for issue in newest(issues)[50:]],
        lambda _: search("ORDER BY created DESC", KEYS, maxResults=50, startAt=50),
    ),
    Ticket(
        "File a bug: the logo is cut off.",
        create("The logo is cut off", "Bug"),
        lambda response: response["fields"]["summary"],
        lambda _: "The logo is cut off",
        lambda made: issue(made["key"]),
    ),
    Ticket(
        "Is there already an issue to rotate the signing keys?",
        search("", "issues[?contains(fields.summary, 'signing keys')].key", maxResults=100),
        lambda response: len(response) > 0,
        lambda issues: any("signing keys" in issue.summary for issue in issues),
    ),
    Ticket(
        "Is the new issue at the top of the list?",
        create("A story of its own", "Story"),
        lambda response: response,
        lambda _: "A story of its own",
        lambda _: search("", "issues[0].fields.summary", maxResults=1),
    ),
)


class Agent:
    """Acts as an MCP client with the settings of the demo's printed command. `calls`: number of calls."""

    def __init__(self, session: aiohttp.ClientSession, line: str) -> None:
        *_, self._url, _, header = shlex.split(line)
        self._session, self._key = session, header.partition(": ")[2]
        self.calls = self.largest = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls += 1
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        headers = {"Authorization": self._key}
        async with self._session.post(self._url, json=message, headers=headers) as response:
            result = (await response.json())["result"]
        assert result["isError"] is False, result
        text = result["content"][0]["text"]
        self.largest = max(self.largest, len(text))
        return result["structuredContent"] if isinstance(result.get("structuredContent"), dict) else json.loads(text)


async def test_each_ticket_is_solved_with_at_most_two_calls(tmp_path: Path) -> None:
    assert len(TICKETS) == 20
    async with demo(tmp_path / "state") as (_, ready), aiohttp.ClientSession() as session:
        site = re.search(r"/ex/sandbox/([^/]+)/", ready["curl"])
        assert site is not None
        calls = []
        for ticket in TICKETS:
            agent = Agent(session, ready["mcp_add"])
            response = await agent.call(*ticket.first)
            if ticket.then is not None:
                response = await agent.call(*ticket.then(response))
            assert ticket.solution(response) == ticket.expected(Tracker().issues(site[1])), ticket.text
            assert agent.calls <= MAX_CALLS
            assert agent.largest <= MAX_BYTES
            calls.append(agent.calls)
    print(f"{len(calls)} tickets, {sum(calls)} calls, {max(calls)} at most")

"""The content of the fake Jira: two sites, their demo issues (the same in every run), and issues that calls create."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.sandbox.accounts import ACCOUNTS, ACME, GLOBEX


@dataclass(frozen=True, slots=True)
class TrackerSite:
    """A site of the fake Jira.

    - `cloud_id`: the site's id in URLs
    - `label`: the first label of the site's host name
    - `project`: the prefix of the site's issue keys
    """

    cloud_id: str
    label: str
    name: str
    project: str

    @property
    def url(self) -> str:
        return f"https://{self.label}.sandbox.example"


SITES: Final[Mapping[str, TrackerSite]] = {
    ACME: TrackerSite(ACME, "acme", "Acme", "ACME"),
    GLOBEX: TrackerSite(GLOBEX, "globex", "Globex", "GLX"),
}

STATUSES: Final = ("To Do", "In Progress", "Done")
TYPES: Final = ("Task", "Bug", "Story")
_EPOCH: Final = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_SUBJECTS: Final = (
    "Login page asks twice on a slow line",
    "Export of invoices stops at row 1000",
    "Add keyboard shortcuts to the board",
    "Welcome mail shows the wrong time zone",
    "Search ignores umlauts: Müller finds nothing",
    "Rotate the signing keys of the staging site",
    "Report page needs 9 s with 50 projects",
    "Let a customer choose the currency",
    "Avatar upload rejects a valid PNG",
    "Write down how to restore a backup",
    "Dark mode loses the contrast of links",
)
_DEMO_ISSUES: Final = 57


@dataclass(frozen=True, slots=True)
class TrackerIssue:
    """An issue. `reporter`, `assignee`: account IDs. `created_at`: the time of creation in epoch seconds."""

    cloud_id: str
    number: int
    summary: str
    issue_type: str
    status: str
    reporter: str
    assignee: str | None
    created_at: float

    @property
    def key(self) -> str:
        return f"{SITES[self.cloud_id].project}-{self.number}"

    @property
    def id(self) -> str:
        """The id of the issue: digits, unique over all sites."""
        return str((10_000 if self.cloud_id == ACME else 500_000) + self.number)


@dataclass(slots=True)
class Tracker:
    """All issues by site, the newest last.

    `created`: the issues that calls created. `changed`: whether the state file lacks one of these issues.
    """

    created: list[TrackerIssue] = field(default_factory=list)
    changed: bool = False
    _by_site: dict[str, list[TrackerIssue]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_site = {
            cloud_id: [_demo_issue(cloud_id, number) for number in range(1, _DEMO_ISSUES + 1)] for cloud_id in SITES
        }
        for issue in self.created:
            self._by_site[issue.cloud_id].append(issue)

    def issues(self, cloud_id: str) -> list[TrackerIssue]:
        return self._by_site[cloud_id]

    def find(self, cloud_id: str, key_or_id: str) -> TrackerIssue | None:
        """Return the issue with this key, in upper or lower case, or with this id; None if there is no such issue."""
        upper_text = key_or_id.upper()
        return next((issue for issue in self._by_site[cloud_id] if upper_text in (issue.key, issue.id)), None)

    def create(self, cloud_id: str, *, summary: str, issue_type: str, reporter: str) -> TrackerIssue:
        """Create an issue with the site's next number. The issue has the first status and no assignee."""
        number = self._by_site[cloud_id][-1].number + 1
        issue = TrackerIssue(
            cloud_id, number, summary, issue_type, STATUSES[0], reporter, None, clock.now().timestamp()
        )
        self._by_site[cloud_id].append(issue)
        self.created.append(issue)
        self.changed = True
        return issue

    def as_json(self) -> list[dict[str, Any]]:
        names = ("cloud_id", "number", "summary", "issue_type", "status", "reporter", "assignee", "created_at")
        return [{name: getattr(issue, name) for name in names} for issue in self.created]

    @classmethod
    def from_json(cls, stored_json: list[dict[str, Any]]) -> "Tracker":
        """Return the tracker from the output of `as_json`. Raises KeyError or TypeError for any other value."""
        return cls(created=[TrackerIssue(**issue) for issue in stored_json])


def _demo_issue(cloud_id: str, number: int) -> TrackerIssue:
    """Return a demo issue. The issue depends only on the site and the number, so that every run has the same issues."""
    people = [account.account_id for account in ACCOUNTS.values() if cloud_id in account.sites]
    return TrackerIssue(
        cloud_id=cloud_id,
        number=number,
        summary=_SUBJECTS[(number * 7) % len(_SUBJECTS)],
        issue_type=TYPES[(number * 5) % len(TYPES)],
        status=STATUSES[(number * 3 + number // 4) % len(STATUSES)],
        reporter=people[number % len(people)],
        assignee=people[number % len(people)] if number % 3 else None,
        created_at=(_EPOCH + timedelta(hours=7 * number)).timestamp(),
    )

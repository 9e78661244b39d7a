"""Small fakes of vendors' APIs. Each accepts only correct calls of the vendor's SDK, and records all requests."""

from tests.fakes.vendors.anthropic import Anthropic
from tests.fakes.vendors.github import GitHub
from tests.fakes.vendors.jira import Jira
from tests.fakes.vendors.openai import OpenAI
from tests.fakes.vendors.slack import Slack
from tests.fakes.vendors.vendor import Vendor

VENDORS: tuple[type[Vendor], ...] = (OpenAI, Anthropic, GitHub, Slack, Jira)

__all__ = ["VENDORS", "Vendor"]

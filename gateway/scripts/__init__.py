"""What single providers need beyond the catalog: the name in the catalog ▸ the function."""

from collections.abc import Mapping

from gateway.scripts.context import PostConnection
from gateway.scripts.jira_post_connection import jira_post_connection

POST_CONNECTION: Mapping[str, PostConnection] = {"jira_post_connection": jira_post_connection}

# The names an entry may give its incoming webhooks; what routes them arrives with the webhook surface.
WEBHOOK_ROUTING: frozenset[str] = frozenset({"jira_webhook_routing"})

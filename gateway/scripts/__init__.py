"""What single providers need beyond the catalog: the name in the catalog ▸ the function."""

from collections.abc import Mapping

from gateway.scripts.context import PostConnection
from gateway.scripts.jira_post_connection import jira_post_connection
from gateway.scripts.jira_webhook_routing import jira_webhook_routing
from gateway.scripts.webhook import WebhookRouting

POST_CONNECTION: Mapping[str, PostConnection] = {"jira_post_connection": jira_post_connection}

WEBHOOK_ROUTING: Mapping[str, WebhookRouting] = {"jira_webhook_routing": jira_webhook_routing}

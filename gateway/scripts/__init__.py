"""What single providers need beyond the catalog: the name in the catalog ▸ the function.

    script_context.py     What a script gets and gives: after a connection was made, and for a webhook that came.
    jira.py               Jira: which site a token is used for, and whose a webhook is.
    webhook_signature.py  Checks a webhook's signature as its provider's entry describes it, on the bytes that came.

Always true: a script reads settings and asks the provider through its context, and reaches nothing else.
"""

from collections.abc import Mapping

from gateway.scripts.jira import jira_post_connection, jira_webhook_routing
from gateway.scripts.script_context import PostConnection, WebhookRouting

POST_CONNECTION: Mapping[str, PostConnection] = {"jira_post_connection": jira_post_connection}

WEBHOOK_ROUTING: Mapping[str, WebhookRouting] = {"jira_webhook_routing": jira_webhook_routing}

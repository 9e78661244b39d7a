"""The functions that single providers need beyond the catalog: a name in the catalog, and the function behind it.

    script_context      what a script gets and returns, after a connection was made and for a webhook that came in
    jira                Jira and Confluence: which site a token is used for, and whose a webhook is
    webhook_signature   verifies a webhook's signature as the entry describes it, on the bytes that came
    signed_token        webhooks that a JSON Web Token proves, and public keys in all the shapes they come in

An entry names its script in `post_connection_script` or `webhook_routing_script`; a new one is a function here and a line in
the tables below.

Always true: a script reads settings and asks the provider through its context, and reaches nothing else; a script that fails
refuses the connection with its reason.
"""

from collections.abc import Mapping

from gateway.scripts.jira import jira_post_connection, jira_webhook_routing
from gateway.scripts.script_context import PostConnection, WebhookRouting

POST_CONNECTION: Mapping[str, PostConnection] = {"jira_post_connection": jira_post_connection}

WEBHOOK_ROUTING: Mapping[str, WebhookRouting] = {"jira_webhook_routing": jira_webhook_routing}

"""Functions for what the catalog cannot express about single providers; a provider's entry names its functions.

    script_context      input and output of scripts, for new connections and for incoming webhooks
    jira                Jira and Confluence: chooses the site of a token, and finds the connections of a webhook
    webhook_signature   verifies a webhook's signature as the provider's entry describes it, on the received bytes
    signed_token        verifies webhooks signed with a JSON Web Token; reads public keys in all formats

An entry names its script in `post_connection_script` or `webhook_routing_script`. To add a script, write a function
here and add it to the tables below.

Always true: a script reads settings and calls the provider only through its context. If a script refuses, the
connection is not stored, and the caller gets the script's reason.
"""

from collections.abc import Mapping

from gateway.scripts.jira import jira_post_connection, jira_webhook_routing
from gateway.scripts.script_context import PostConnection, WebhookRouting

POST_CONNECTION: Mapping[str, PostConnection] = {"jira_post_connection": jira_post_connection}

WEBHOOK_ROUTING: Mapping[str, WebhookRouting] = {"jira_webhook_routing": jira_webhook_routing}

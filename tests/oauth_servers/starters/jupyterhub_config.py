"""JupyterHub as an OAuth provider of one external service. Environment: OPTIONS, as JSON."""

import json
import os

c = get_config()  # type: ignore[name-defined]  # noqa: F821
options = json.loads(os.environ["OPTIONS"])
c.JupyterHub.bind_url = options["url"]
c.JupyterHub.hub_bind_url = options["hub_url"]
c.ConfigurableHTTPProxy.command = options["proxy"]
c.ConfigurableHTTPProxy.api_url = options["proxy_api_url"]
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = options["password"]
c.Authenticator.allowed_users = {options["user"]}
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.oauth_token_expires_in = options["ttl_s"]
c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self", "access:services!service=gateway"]}]
c.JupyterHub.services = [
    {
        "name": "gateway",
        "api_token": options["client_secret"],
        "oauth_client_id": options["client_id"],
        "oauth_redirect_uri": options["redirect_uri"],
        "oauth_client_allowed_scopes": ["read:users!user"],
        "oauth_no_confirm": False,
    }
]

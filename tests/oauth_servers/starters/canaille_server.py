"""Canaille with one user and one client, with its data in memory: python canaille_server.py JSON

JSON: client_id, client_secret, redirect_uri, ttl_s, user, password. Prints ``ready on http://127.0.0.1:PORT``.
"""

import json
import sys
from datetime import UTC, datetime

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from werkzeug.serving import make_server

options = json.loads(sys.argv[1])
app = create_app(
    {
        "SECRET_KEY": "only-for-tests-" + "x" * 40,
        "OAUTH2_TOKEN_EXPIRES_IN": {"authorization_code": options["ttl_s"], "refresh_token": options["ttl_s"]},
        "CANAILLE_OIDC": {"TRUSTED_DOMAINS": []},  # users must see the consent page for the client
    }
)
with app.app_context():
    user = models.User(
        user_name=options["user"],
        formatted_name="Ada Lovelace",
        family_name="Lovelace",
        emails=["ada@example.com"],
        password=options["password"],
    )
    Backend.instance.save(user)
    client = models.Client(
        client_id=options["client_id"],
        client_secret=options["client_secret"],
        client_name="The gateway under test",
        client_id_issued_at=datetime.now(UTC),
        redirect_uris=[options["redirect_uri"]],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=["openid", "profile"],
        token_endpoint_auth_method="client_secret_basic",
    )
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)
server = make_server("127.0.0.1", 0, app, threaded=True)
print(f"ready on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

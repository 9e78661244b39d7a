"""A third-party OAuth 2.0 server: django-oauth-toolkit under Django, on SQLite, in its own process.

python tests/fakes/django_idp_server.py FOLDER REDIRECT_URI

The server requires PKCE and rotates refresh tokens. If a refresh token is sent twice, the server revokes all tokens of
that grant. Access tokens are valid for 3 s. Callbacks contain `iss`. An invalid token gets 403, where other servers
send 401. The scope `openid` adds an ID token. When the server is ready, it prints ``idp ready on
http://127.0.0.1:PORT``. We add a template for the login page, a view that requires a token, and a counter of token
requests.
"""

import sys
import threading
from collections import Counter
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings

CLIENT_ID, CLIENT_SECRET = "gateway-at-django", "django-client-secret-0123456789"
USERNAME, PASSWORD = "ada", "correct horse battery staple"
OTHER_USERNAME = "bob"  # has the same password
# Servers round an expiry by up to a second. This is the shortest lifetime with a longer refresh window
# (refresh/schedule.py).
TOKEN_TTL_S = 3
APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"]
LOGIN = """<!doctype html><title>Log in</title><form method="post">{% csrf_token %}{{ form.as_p }}
<input type="hidden" name="next" value="{{ next }}"><input type="submit" value="Log in"></form>"""


def configure(folder: Path, ttl_s: int) -> None:
    """Configure Django. This replaces settings.py."""
    settings.configure(
        SECRET_KEY="only-for-tests-" + "x" * 40,
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": folder / "idp.db",
                "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
            }
        },
        INSTALLED_APPS=APPS,
        MIGRATION_MODULES={
            app.rpartition(".")[2]: None for app in APPS
        },  # create the latest schema directly, which is faster than running migrations
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {
                    "context_processors": ["django.template.context_processors.request"],
                    "loaders": [
                        ("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN}),
                        "django.template.loaders.app_directories.Loader",
                    ],
                },
            }
        ],
        OAUTH2_PROVIDER={
            "SCOPES": {"read": "Read your things", "write": "Change your things", "openid": "Know who you are"},
            "OIDC_ENABLED": True,
            "OIDC_RSA_PRIVATE_KEY": rsa_key(),
            "ACCESS_TOKEN_EXPIRE_SECONDS": ttl_s,
            "PKCE_REQUIRED": True,
            "ROTATE_REFRESH_TOKEN": True,
            "REFRESH_TOKEN_REUSE_PROTECTION": True,
            "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
            "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
            "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
            "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
        },
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        LOGIN_URL="/accounts/login/",
        STATIC_URL="/static/",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()


def rsa_key() -> str:
    """Return a new key that signs the ID tokens of this process."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def fill(redirect_uri: str) -> None:
    """Create the schema, two users, and one registered application."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from oauth2_provider.models import Application

    call_command("migrate", run_syncdb=True, verbosity=0)
    for name in (USERNAME, OTHER_USERNAME):
        if not User.objects.filter(username=name).exists():
            User.objects.create_user(name, f"{name}@example.com", PASSWORD)
    Application.objects.update_or_create(
        client_id=CLIENT_ID,
        defaults={
            "name": "The gateway under test",
            "client_secret": CLIENT_SECRET,
            "client_type": Application.CLIENT_CONFIDENTIAL,
            "authorization_grant_type": Application.GRANT_AUTHORIZATION_CODE,
            "redirect_uris": redirect_uri,
            "algorithm": Application.RS256_ALGORITHM,
        },
    )


def routes() -> list[object]:
    """Return the routes: Django's login, the toolkit's endpoints, and the two views that we add."""
    from django.contrib.auth.views import LoginView
    from django.http import HttpRequest, HttpResponse, JsonResponse
    from django.urls import path
    from django.views.decorators.csrf import csrf_exempt
    from oauth2_provider import views

    counts: Counter[str] = Counter()
    lock = threading.Lock()
    token_view = views.TokenView.as_view()

    @csrf_exempt
    def token(request: HttpRequest) -> HttpResponse:
        with lock:
            counts[request.POST.get("grant_type", "none")] += 1
        return token_view(request)

    def show_counts(_request: HttpRequest) -> HttpResponse:
        return JsonResponse(counts)

    class WhoAmI(views.generic.ProtectedResourceView):  # type: ignore[misc]
        """Return the user of the token, and the query of the request."""

        def get(self, request: HttpRequest) -> HttpResponse:
            return JsonResponse({"user": request.resource_owner.username, "query": request.META["QUERY_STRING"]})

        def post(self, request: HttpRequest) -> HttpResponse:
            return JsonResponse({"user": request.resource_owner.username, "body": request.body.decode()}, status=201)

    return [
        path("accounts/login/", LoginView.as_view()),
        path("o/authorize/", views.AuthorizationView.as_view()),
        path("o/token/", token),
        path("o/revoke_token/", views.RevokeTokenView.as_view()),
        path("api/whoami", csrf_exempt(WhoAmI.as_view())),
        path("counts", show_counts),
    ]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
        """Log nothing: the tests read counters, not logs."""


def main() -> None:
    from django.core.wsgi import get_wsgi_application
    from oauth2_provider.settings import oauth2_settings

    with make_server("127.0.0.1", 0, get_wsgi_application(), Server, QuietHandler) as server:
        oauth2_settings.OIDC_ISS_ENDPOINT = f"http://127.0.0.1:{server.server_port}/o"
        print(f"idp ready on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    folder, redirect_uri, ttl = sys.argv[1:]
    configure(Path(folder), int(ttl))
    fill(redirect_uri)
    urlpatterns = routes()
    main()

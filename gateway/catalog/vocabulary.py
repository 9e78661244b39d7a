"""The closed word lists of the catalog: auth modes, the credential names each fills, and categories."""

from types import MappingProxyType
from typing import Final

CLIENT: Final = frozenset({"clientId", "clientSecret"})
TOKEN: Final = frozenset({"accessToken", "access_token"})

# Auth mode ▸ the bare placeholders it fills. The rest of a mode's values are reached as ${credentials.name}.
AUTH_MODES: Final = MappingProxyType(
    {
        "API_KEY": frozenset({"apiKey"}),
        "APP": TOKEN | CLIENT,
        "AWS_SIGV4": frozenset[str](),
        "BASIC": frozenset({"username", "password"}),
        "BILL": frozenset({"username", "password"}) | TOKEN,
        "CUSTOM": TOKEN | CLIENT,
        "INSTALL_PLUGIN": frozenset({"username", "password"}),
        "JWT": TOKEN,
        "MCP_OAUTH2": TOKEN | CLIENT,
        "MCP_OAUTH2_GENERIC": TOKEN | CLIENT,
        "NONE": frozenset[str](),
        "OAUTH1": CLIENT,
        "OAUTH2": TOKEN | CLIENT,
        "OAUTH2_CC": TOKEN | CLIENT,
        "SIGNATURE": frozenset({"username", "password"}) | TOKEN,
        "TBA": CLIENT,
        "TWO_STEP": frozenset({"username", "password", "apiKey"}) | TOKEN | CLIENT,
    }
)

# Modes whose end user is sent to the provider, which needs both addresses (requirement 2.1).
REDIRECTING: Final = frozenset({"OAUTH2", "OAUTH1"})

CATEGORIES: Final = frozenset(
    {
        "accounting", "ai", "analytics", "banking", "calendar", "cloud-infrastructure", "commerce", "communication",
        "content-management", "crm", "customer-support", "data", "design", "developer-tools", "education", "email",
        "erp", "file-storage", "forms-surveys", "gaming", "health", "hr", "identity", "knowledge", "legal",
        "logistics", "marketing", "mcp", "media", "monitoring", "other", "payments", "productivity",
        "project-tracking", "real-estate", "recruiting", "sales", "search", "security", "social", "ticketing",
        "travel",
    }
)  # fmt: skip

# The peer's spelling of script names, which operators have in their files, and ours.
SCRIPT_ALIASES: Final = MappingProxyType(
    {
        "jiraPostConnection": "jira_post_connection",
        "jiraWebhookRouting": "jira_webhook_routing",
    }
)

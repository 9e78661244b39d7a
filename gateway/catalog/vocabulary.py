"""The closed word lists of the catalog: categories, and the other spelling of scripts. Auth modes: `auth_modes`."""

from types import MappingProxyType
from typing import Final

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

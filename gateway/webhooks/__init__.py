"""Webhooks: events on their way out to the customer's application, and providers' webhooks on their way in."""

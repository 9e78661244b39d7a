"""A whole list for one call: page after page is asked for, and their records leave as one stream of lines (NDJSON)."""

from gateway.forward.paging.attempts import PageAttempts
from gateway.forward.paging.lines import page_stream
from gateway.forward.paging.run import pass_pages

__all__ = ["PageAttempts", "page_stream", "pass_pages"]

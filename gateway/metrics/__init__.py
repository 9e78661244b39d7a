"""What Prometheus is told (ADR 15). Counting is a few additions; the rest happens when somebody asks.

record of an exchange ▸ counts      which numbers it adds to, per integration, never per end user
counts                ▸ page        the numbers of one worker, in memory that its siblings can read at any moment
pages of all workers  ▸ exposition  the text of /metrics
"""

from gateway.metrics.counts import Metrics, Sample
from gateway.metrics.exposition import CONTENT_TYPE, exposition
from gateway.metrics.page import Board, Page
from gateway.metrics.total import total

__all__ = ["CONTENT_TYPE", "Board", "Metrics", "Page", "Sample", "exposition", "total"]

"""What Prometheus is told. Counting is a few additions to lists of this process; the rest happens when somebody asks.

request ▸ counts        plain numbers of one process, per integration, never per end user or connection
counts  ▸ board         memory that the workers of one gateway share: each writes its own numbers, all read them
board   ▸ exposition    the text of /metrics, summed over the workers
"""

from gateway.metrics.board import Board
from gateway.metrics.counts import Metrics
from gateway.metrics.exposition import exposition
from gateway.metrics.snapshot import Snapshot, added

__all__ = ["Board", "Metrics", "Snapshot", "added", "exposition"]

"""The goals for speed and size, and whether a run met them."""

from dataclasses import dataclass

from bench.result import Result, ratio, speed_ratio


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal. `found` and `limit` have the same unit. `found` is None if this run did not measure the figure."""

    words: str
    limit: float
    found: float | None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not measured"
        met = self.found >= self.limit if self.at_least else self.found <= self.limit
        return "met" if met else "missed"


def goals(result: Result) -> list[Goal]:
    """Return the goals in the order of docs/performance.md."""
    ours, nginx = result.row("gateway"), result.row("nginx")

    def cpu(peer: str) -> float | None:
        return ratio(ours, result.row(peer))

    return [
        Goal("CPU per request, to Node's bare pipe", 1.0, cpu("node")),
        Goal("CPU per request, to aiohttp + ClientSession", 0.5, cpu("aiohttp")),
        Goal("CPU per request, to Go's ReverseProxy (the aim)", 1.5, cpu("go")),
        Goal(
            "download speed, to nginx with `proxy_buffering off`", 1.0, speed_ratio(ours, nginx, "down"), at_least=True
        ),
        Goal("upload speed, to nginx with `proxy_buffering off`", 1.0, speed_ratio(ours, nginx, "up"), at_least=True),
        Goal("growth of memory in a download, MiB", 32.0, ours.stream("down", "grown_mib") if ours else None),
        Goal("growth of memory in an upload, MiB", 32.0, ours.stream("up", "grown_mib") if ours else None),
        Goal("idle memory per worker, MiB", 90 * 1e6 / 2**20, ours.worker_mib if ours else None),
        Goal("start to the first proxied response, s", 2.0, ours.start_s if ours else None),
        Goal(
            "CPU per request with 100,000 connections stored, to 10", 1.1, ratio(result.row("full"), result.row("ten"))
        ),
    ]

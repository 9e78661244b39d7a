"""Log lines, metrics, traces, and the log of proxied calls.

    masking        what a log line may show: values named like a secret are hidden, and what looks like one
    logs           log lines on stderr: JSON, or readable ones on a terminal
    metrics        every metric by name, kind and labels; numbers in memory that workers share (ADR 15)
    metrics_text   the numbers of all workers as Prometheus text
    loop_lag       how long the event loop kept others waiting
    tracing        whether a request is traced, and the way of what is sampled to its spans
    span_export    the thread that makes spans and sends them to a collector
    spans          records as spans, by OpenTelemetry's conventions
    call_queue     the queues behind `access_log`: records on their way to stderr and to the call log

Always true: no secret, query, header value or body is written; a request never waits for its own record; a new metric is
one entry in `metrics`, and docs/operations.md is tested against it.
"""

"""Log lines, metrics, traces, and the log of proxied calls.

    masking        hides secrets in log lines: values that have the name of a secret, and texts that look like one
    logs           log lines on stderr: JSON, or readable text on a terminal
    metrics        every metric by name, kind and labels; numbers in shared memory of the workers (ADR 15)
    metrics_text   the numbers of all workers as Prometheus text
    loop_lag       measures how long the event loop was blocked
    tracing        decides whether a request is traced, and passes sampled records to the exporter
    span_export    the thread that makes spans and sends them to a collector
    spans          turns records into spans, by OpenTelemetry's conventions
    call_queue     the queues behind `access_log`: write records to stderr and to the call log

Always true: no secret, query, header value or body is written; a request never waits until its record is written; a new
metric is one entry in `metrics`, and a test compares docs/operations.md with it.
"""

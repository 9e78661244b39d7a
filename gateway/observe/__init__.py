"""Log lines, metrics, traces, and the log of proxied calls.

    masking        hides secrets in log lines: values with a secret's name, and texts that look like a secret
    logs           writes log lines to stderr: JSON, or readable text on a terminal
    metrics        defines every metric, and counts requests (ADR 15)
    metrics_page   the memory in which one process counts and all processes read
    metrics_text   adds up the numbers of all workers, and returns the result as Prometheus text
    loop_lag       measures how long the event loop was blocked
    tracing        decides whether a request is traced, and passes sampled records to the exporter
    span_export    the thread that makes spans and sends them to a collector
    spans          turns records into spans, by OpenTelemetry's conventions
    call_queue     queues the records of calls, and writes them in batches to stderr and to the call log

Always true: no secret, query, header value or body is written; a request never waits until its record is written; each
metric has an entry in `metrics`, and a test compares these entries with docs/operations.md.
"""

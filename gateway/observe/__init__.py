"""Log lines, metrics, and the log of proxied calls.

    masking.py       What a log line may show: values named like a secret are hidden, and so is what looks like one
                     in others' words.
    logs.py          Logs to stderr: lines of JSON, or readable ones on a terminal. What is named like a secret is
                     masked.
    metrics.py       Metrics: every family by name, the page of numbers that workers share, and what a request adds
                     (ADR 15).
    metrics_text.py  The numbers of all workers ▸ the text that Prometheus reads.
    request_log.py   The bounded queues behind `access_log`: a request never waits for its own record.

Always true: no secret, query, header value or body is written; a request never waits for its own record.
"""

"""Traces of requests and batches for OpenTelemetry; needs the extra ``otel``. Metrics are at ``/metrics``."""

"""The service: watching machines live, with sources, sinks, an API and a dashboard."""

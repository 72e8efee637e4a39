"""The service: live monitoring of machines, with sources, sinks, an API and a dashboard."""

"""Connections to other systems, which sources and sinks share."""

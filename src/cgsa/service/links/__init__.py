"""Connections to other systems, shared by sources and sinks."""

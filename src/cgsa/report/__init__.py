"""Figures and HTML reports."""

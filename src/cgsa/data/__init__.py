"""Recordings and windows: reading, cutting and describing data."""

"""Driving a method over a stream and telling what it sees."""

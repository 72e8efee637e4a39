"""Live intake: blocks of samples, continuity and quality checks, and cutting into windows."""

"""Live intake: blocks of samples, their continuity, their quality, and the windows cut from them."""

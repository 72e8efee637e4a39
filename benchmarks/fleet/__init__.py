"""Parts of the benchmarks of a fleet: a single process over the same log, and the comparison with it."""

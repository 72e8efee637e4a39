"""Many machines on many nodes: shards on Ray, which read a replayable log; see ``docs/fleet.md``."""

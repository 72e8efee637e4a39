"""The store in PostgreSQL, to which any number of processes write; needs the extra ``postgres``.

The statements are those of the store in SQLite. Three things make several writers safe: a row that is there already is
left as it is, whoever wrote it; what has a position is never replaced by something older; and a transaction whose
answer was lost is not written a second time, since each writer records the number of its last one (``writers``).
"""

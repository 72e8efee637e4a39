"""How many files and connections the operating system lets the service have open."""

from __future__ import annotations

import resource


def raise_handle_limit(wanted: int) -> int:
    """Raise the limit of open file handles of this process, if it is lower, as far as it may; return the limit.

    Many systems begin with 1,024 and allow far more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, raised), hard))
    except OSError:
        # A sandbox may forbid it.
        return soft
    return max(soft, raised)

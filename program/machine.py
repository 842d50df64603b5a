"""What the machine gives this process."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import psutil


@cache
def processor_cores() -> int:
    """Cores that this process may use: physical ones, and within a container's share of them."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, int(quota) // int(period))
    except (OSError, ValueError):  # not Linux, or no limit
        pass
    return max(1, cores)

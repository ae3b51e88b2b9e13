"""The next step's batch, read by a thread while the device works on this one."""
import concurrent.futures
from collections.abc import Callable, Generator
from typing import Any


def ahead(make: Callable[[int], Any], first: int, last: int) -> Generator[Any, None, None]:
    """Generate make(first), ..., make(last - 1), each started when the one before it is taken.

    An exception of `make` is raised where its value would be taken. Close the generator (contextlib.closing) where it
    may not be exhausted: that waits for the call in progress, and ends the thread.
    """
    with concurrent.futures.ThreadPoolExecutor(1, 'prefetch') as thread:
        started = None
        for step in range(first, last):
            value = (started or thread.submit(make, step)).result()
            started = thread.submit(make, step + 1) if step + 1 < last else None
            yield value

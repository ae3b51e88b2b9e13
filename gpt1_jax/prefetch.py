"""What the next step needs, made by a thread while the device works on this one."""
import concurrent.futures


def ahead(make, first, last):
    """Generate make(first), ..., make(last - 1), each begun when the one before it is taken.

    What make raises is raised where its value would be taken. Close the generator (contextlib.closing) where it may not
    come to its end: that waits for what has begun, and ends the thread.
    """
    with concurrent.futures.ThreadPoolExecutor(1, 'prefetch') as thread:
        begun = None
        for step in range(first, last):
            value = (begun or thread.submit(make, step)).result()
            begun = thread.submit(make, step + 1) if step + 1 < last else None
            yield value

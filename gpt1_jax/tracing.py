"""What the devices do in a few steps of training: a trace for TensorBoard or Perfetto (config.profile='START:STOP')."""
import jax

from gpt1_jax import storage


class Trace:
    """The trace of the steps after `first` up to `last`, into a directory; every process adds its own files.

    span: (first, last), or None for no trace. Called around each step, it costs nothing outside of the span.
    """

    def __init__(self, span=None, directory=None):
        self._first, self._last = span or (None, None)
        self._directory = directory
        self._running = False

    def before(self, step):
        if step == self._first:
            self._local = storage.cache(self._directory) if storage.remote(self._directory) else self._directory
            jax.profiler.start_trace(self._local)
            self._running = True

    def after(self, step, results, final=False):
        """results: what the step gave, waited for where the trace ends. final: no step follows."""
        if self._running and (step == self._last or final):
            jax.block_until_ready(results)
            jax.profiler.stop_trace()
            self._running = False
            if storage.remote(self._directory):
                storage.upload(self._local, self._directory)

"""The client of Google Cloud Storage: gcsfs, with uploads that survive a lost reply.

Imported only for gs:// paths. gcsfs repeats a request that fails (429, 5xx, no reply) up to six
times within a minute. But the last request of a resumable upload cannot be repeated once the store
has completed the session or the session has expired.
"""

import io
import logging

import gcsfs

# gcsfs logs the exceptions that it raises, with tracebacks
logging.getLogger('gcsfs').setLevel(logging.CRITICAL)


class Store(gcsfs.GCSFileSystem):
    """Uploads every object in one request, which can be repeated."""

    def _open(self, path, mode='rb', **options):
        return _Upload(self, path) if mode == 'wb' else super()._open(path, mode, **options)

    async def _isdir(self, path):
        """Whether a path is a directory. OSErrors are raised.

        gcsfs answers False for every OSError. A run whose store does not answer would then seem to
        have no checkpoint.
        """
        try:
            return (await self._info(path))['type'] == 'directory'
        except FileNotFoundError:
            return False


class _Upload(io.BytesIO):
    """An object open for writing. Closing it uploads it."""

    def __init__(self, store, path):
        super().__init__()
        self._store = store
        self._path = path

    def close(self):
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.pipe_file(self._path, data, chunksize=len(data) + 1)

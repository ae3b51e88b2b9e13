"""Runs an object store on this machine, with as much of Google's storage API as gcsfs and
TensorStore use.

This is gcp-storage-emulator, with two additions that OCDBT needs: a read returns the object's
generation, and a write is refused if the generation has changed. gcp-storage-emulator also loses a
'\\r' at the end of an upload. emulator.py PORT serves the store.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request


@functools.cache
def bucket():
    """'gs://bucket', empty at first.

    The environment of this process and of processes that it starts leads there.
    """
    from experiments.launch.local import free_port

    url = f'http://localhost:{(port := free_port())}'
    server = subprocess.Popen(
        [sys.executable, __file__, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(server.kill)  # a test process that is killed never gets there: see _with_parent
    os.environ.update(
        STORAGE_EMULATOR_HOST=url,
        TENSORSTORE_GCS_HTTP_URL=url,
        GOOGLE_AUTH_TOKEN_FOR_TESTING='x',
        NO_GCE_CHECK='true',
    )
    for _ in range(600):
        try:
            urllib.request.urlopen(f'{url}/storage/v1/b/bucket', timeout=1)
            return 'gs://bucket'
        except OSError:
            time.sleep(0.1)
    raise RuntimeError('the emulator did not start')


def serve(port):
    from gcp_storage_emulator import server
    from gcp_storage_emulator.handlers import objects
    from gcp_storage_emulator.storage import NotFound

    def generation(storage, bucket_name, name):
        try:
            return storage.get_file_obj(bucket_name, name)['generation']
        except NotFound:
            return '0'

    def download(request, response, storage):
        real_download(request, response, storage)
        response['x-goog-generation'] = generation(
            storage, request.params['bucket_name'], request.params['object_id']
        )

    def post(handler):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        # Not implemented there: gcsfs copies and deletes, but retries for long after a 501
        if '/moveTo/' in url.path:
            return refuse(handler, 400)
        if 'ifGenerationMatch' in query and '/upload/' in url.path:
            bucket_name = url.path.split('/b/')[1].split('/')[0]
            if query['ifGenerationMatch'] != generation(
                handler.storage, bucket_name, query['name']
            ):
                return refuse(handler, 412)
        real_post(handler)

    def read(handler, query):
        """Mends line ends.

        gcsfs ends lines in '\\n', and the e-mail parser used there takes '\\r\\n' for one line
        break.
        """
        if not handler.headers.get('content-type', '').startswith('multipart/related'):
            return real_read(handler, query)
        body = handler.rfile.read(int(handler.headers['content-length']))
        boundary = body[: body.index(b'\n')]
        _, meta, rest = body.split(boundary, 2)
        header, content = rest.removesuffix(b'\n' + boundary + b'--').split(b'\n\n', 1)
        return {
            'meta': json.loads(meta.split(b'\n\n', 1)[1]),
            'content': content,
            'content-type': header.decode().partition(': ')[2].strip(),
        }

    def refuse(handler, status):
        handler.rfile.read(int(handler.headers.get('content-length', 0)))
        handler.send_response(status)
        handler.send_header('Content-Length', '0')
        handler.end_headers()

    real_download = objects.download
    real_post = server.RequestHandler.do_POST
    real_read = server._read_data
    objects.download = download
    server.RequestHandler.do_POST = post
    server._read_data = read
    server.create_server('localhost', port, in_memory=True, default_bucket='bucket').run()


def _with_parent(parent):
    """Ends this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == '__main__':
    threading.Thread(target=_with_parent, args=(os.getppid(),), daemon=True).start()
    serve(int(sys.argv[1]))

"""A proxy in front of an object store that loses requests and replies, and answers 429 and 503."""

import contextlib
import http.client
import http.server
import itertools
import threading
import urllib.parse

FAULTS = ('lost reply', 'lost request', 429, 503)


class Proxy:
    """A proxy.

    url: of the proxy. choose: (method, path, body) -> one of FAULTS or None. faults: how often each
    fault occurred.
    """

    def __init__(self, store):
        self.store, self.choose, self.faults = (
            urllib.parse.urlsplit(store).netloc,
            reliable,
            dict.fromkeys(FAULTS, 0),
        )
        handler = type('Handler', (_Handler,), {'proxy': self})
        self.server = http.server.ThreadingHTTPServer(('localhost', 0), handler)
        self.url = f'http://localhost:{self.server.server_port}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def reliable(*request):
    return None


class InTurn:
    """Gives every 25th request the next fault, and loses the reply to every third gcsfs upload."""

    def __init__(self):
        self.requests, self.uploads, self.kinds = (
            itertools.count(1),
            itertools.count(1),
            itertools.cycle(FAULTS),
        )

    def __call__(self, method, path, body):
        if 'uploadType=multipart' in path or 'upload_id' in path:
            return None if next(self.uploads) % 3 else 'lost reply'
        return None if next(self.requests) % 25 else next(self.kinds)


class Once:
    """Loses the first reply to each request that may write."""

    def __init__(self):
        self.seen = set()

    def __call__(self, *request):
        if request[0] == 'GET' or request in self.seen:
            return None
        self.seen.add(request)
        return 'lost reply'


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def forward(self):
        body = self.rfile.read(int(self.headers.get('content-length', 0)))
        fault = self.proxy.choose(self.command, self.path, body)
        if fault:
            self.proxy.faults[fault] += 1
        if fault in (429, 503):
            return self.answer(fault, [], b'')
        if fault != 'lost request':
            connection = http.client.HTTPConnection(self.proxy.store)
            with contextlib.closing(connection):
                connection.request(self.command, self.path, body, dict(self.headers))
                reply = connection.getresponse()
                content = reply.read()
        if fault is None:
            return self.answer(reply.status, reply.getheaders(), content)
        self.close_connection = True  # the client gets no reply

    def answer(self, status, headers, content):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ('content-length', 'transfer-encoding', 'connection'):
                self.send_header(name, value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        # A client with several requests may want only the first reply
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = forward

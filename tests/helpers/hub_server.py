"""A Hugging Face Hub on this machine: the routes that huggingface_hub uses to list and download, in memory.

After hub-docs' API page and huggingface_hub's requests. Large files go the way of small ones: no git LFS, no Xet.
"""
import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

from gpt1_jax.data.hub import download

TOKEN = 'hf_of_the_test'
NAME = r'(?P<name>[\w.-]+(?:/[\w.-]+)?)'


class Repository:
    """commits: {commit: {path: content}}. branches: {branch: commit}."""

    def __init__(self, files=(), private=False, gated=False):
        self.commits, self.branches = {}, {}
        self.private, self.gated = private, gated
        self.commit('main', dict(files))

    def commit(self, branch, files):
        content = self.commits.get(self.branches.get(branch), {}) | files
        digest = hashlib.sha1(repr((branch, len(self.commits), sorted(content))).encode()).hexdigest()
        self.commits[digest], self.branches[branch] = content, digest
        return digest

    def files(self, revision):
        return self.commits.get(self.branches.get(revision, revision))


class Hub:
    """repositories: {('model' or 'dataset', name): Repository}. requests: (method, path) of each, in order."""

    def __init__(self):
        self.repositories, self.requests = {}, []

    def add(self, name, files, kind='model', **how):
        """A repository of {path: bytes}, or of the files of a directory."""
        if not isinstance(files, dict):
            files = {path.relative_to(files).as_posix(): path.read_bytes()
                     for path in sorted(files.rglob('*')) if path.is_file()}
        self.repositories[kind, name] = Repository(files, **how)
        return self.repositories[kind, name]


class Refused(Exception):
    """status, headers."""


class Handler(http.server.BaseHTTPRequestHandler):
    # HTTP/1.0, the default: a connection ends with its answer, so none outlives the server

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer()

    do_HEAD = do_GET

    def answer(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        url = urllib.parse.urlsplit(self.path)
        self.server.hub.requests.append((self.command, url.path))
        try:
            for method, pattern, handle in ROUTES:
                match = re.fullmatch(pattern, url.path)
                if match and method == self.command.replace('HEAD', 'GET'):
                    parts = {key: urllib.parse.unquote(value or '') for key, value in match.groupdict().items()}
                    status, headers, content = handle(self, body, **parts)
                    break
            else:
                status, headers, content = 404, {}, b'{"error": "no such route"}'
        except Refused as refused:
            status, headers, content = *refused.args, b'{"error": "refused"}'
        self.send_response(status)
        for key, value in (headers | {'Content-Length': str(len(content))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)

    # what the routes need

    def authorized(self):
        given = self.headers.get('Authorization')
        if given not in (None, f'Bearer {TOKEN}'):
            raise Refused(401, {'X-Error-Message': 'Invalid credentials in Authorization header'})
        return given is not None

    def repository(self, kind, name):
        known = self.authorized()
        found = self.server.hub.repositories.get((kind, name))
        if found is None or (found.private and not known):
            # The Hub sends no code with a 401: huggingface_hub takes any for this, but over https alone.
            raise Refused(404 if known else 401, {'X-Error-Code': 'RepoNotFound'})
        return found

    def content(self, kind, name, revision):
        repository = self.repository(kind, name)
        found = repository.files(revision)
        if found is None:
            raise Refused(404, {'X-Error-Code': 'RevisionNotFound', 'X-Error-Message': f'Invalid rev id: {revision}'})
        return repository, repository.branches.get(revision, revision), found


def reply(value, status=200):
    return status, {'Content-Type': 'application/json'}, json.dumps(value).encode()


def info(self, body, kind, name, revision='main'):
    repository, commit, files = self.content(kind, name, revision or 'main')
    siblings = [{'rfilename': path, 'size': len(content)} for path, content in files.items()]
    return reply({'id': name, 'modelId': name, 'sha': commit, 'private': repository.private, 'siblings': siblings,
                  'tags': [], 'gated': repository.gated})


def tree(self, body, kind, name, revision):
    _, _, files = self.content(kind, name, revision)
    return reply([{'type': 'file', 'path': path, 'size': len(content), 'oid': git_hash(content)}
                  for path, content in files.items()])


def resolve(self, body, datasets, name, revision, path):
    repository, commit, files = self.content('dataset' if datasets else 'model', name, revision)
    if repository.gated and not self.authorized():
        raise Refused(401, {'X-Error-Code': 'GatedRepo', 'X-Error-Message': 'Access is restricted.'})
    if path not in files:
        raise Refused(404, {'X-Error-Code': 'EntryNotFound'})
    return 200, {'X-Repo-Commit': commit, 'ETag': f'"{git_hash(files[path])}"'}, files[path]


def git_hash(content):
    return hashlib.sha1(b'blob %d\0' % len(content) + content).hexdigest()


KIND = r'/api/(?P<kind>model|dataset)s/' + NAME
ROUTES = [
    ('GET', KIND, info), ('GET', KIND + '/revision/(?P<revision>[^/]+)', info),
    ('GET', KIND + '/tree/(?P<revision>[^/]+)', tree),
    ('GET', '/(?P<datasets>datasets/)?' + NAME + '/resolve/(?P<revision>[^/]+)/(?P<path>.+)', resolve)]


def point_to(monkeypatch, url, cache):
    """Make huggingface_hub, in this process and in programs that it starts, talk to `url` and keep files in `cache`."""
    from huggingface_hub import constants
    values = {'HF_ENDPOINT': url, 'HF_HOME': str(cache), 'HF_HUB_CACHE': str(cache / 'hub'),
              'HF_TOKEN_PATH': str(cache / 'token'), 'HF_HUB_DISABLE_XET': '1', 'HF_HUB_DISABLE_TELEMETRY': '1',
              'GPT1_JAX_CACHE': str(cache / 'gpt1_jax')}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv('HF_TOKEN', raising=False)
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, url)
    for name, value in (('HUGGINGFACE_CO_URL_TEMPLATE', template), ('ENDPOINT', url), ('HF_HUB_DISABLE_XET', True),
                        ('HF_HUB_CACHE', values['HF_HUB_CACHE']), ('HF_TOKEN_PATH', values['HF_TOKEN_PATH'])):
        monkeypatch.setattr(constants, name, value)


@contextlib.contextmanager
def in_place_of_the_hub(monkeypatch, cache):
    """A Hub that huggingface_hub talks to until the block ends; afterwards there is none, and only `cache` is left."""
    download.cache_clear()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.hub, server.url = Hub(), f'http://127.0.0.1:{server.server_port}'
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    point_to(monkeypatch, server.url, cache)
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        download.cache_clear()

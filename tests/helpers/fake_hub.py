"""huggingface_hub.snapshot_download with repositories in memory, in this process."""

import contextlib
import fnmatch
import hashlib
import inspect
import pathlib

from gpt1_jax.data.hub import download


class FakeHub:
    """repositories: {(kind, name, revision): ({path: content}, commit)}. asked: the paths that were
    downloaded."""

    def __init__(self, cache):
        self.cache = cache
        self.repositories = {}
        self.asked = []
        self.downloaded = {}

    def add(self, name, files, kind='model', revision='main'):
        """Add a revision of a repository: {path: content}, or the files of a directory."""
        if isinstance(files, pathlib.Path):
            files = {
                path.relative_to(files).as_posix(): path.read_bytes()
                for path in sorted(files.rglob('*'))
                if path.is_file()
            }
        text = repr((name, revision, sorted(files.items())))
        commit = hashlib.sha1(text.encode()).hexdigest()
        self.repositories[kind, name, revision] = files, commit
        return commit

    def snapshot_download(self, name, repo_type, revision, allow_patterns):
        known = self.repositories.get((repo_type, name, revision or 'main'))
        if known is None:
            raise FileNotFoundError(
                f'404 Client Error.\n\nRepository {name} or its revision {revision} Not Found'
            )
        files, commit = known
        directory = self.cache / 'hub' / commit
        for path, content in files.items():
            if any(fnmatch.fnmatch(path, pattern) for pattern in allow_patterns):
                self.asked.append(path)
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content)
        self.downloaded[repo_type, name, revision] = str(directory)
        return str(directory)

    def offline(self, name, repo_type, revision, allow_patterns):
        """Behaves as without a network: only files that were downloaded before are there."""
        if (repo_type, name, revision) not in self.downloaded:
            raise ConnectionError('no route to host')
        return self.downloaded[repo_type, name, revision]


@contextlib.contextmanager
def in_place_of_the_hub(monkeypatch, cache):
    """A FakeHub until the block ends; after that it is offline."""
    import huggingface_hub

    download.cache_clear()
    hub = FakeHub(cache)
    monkeypatch.setenv('GPT1_JAX_CACHE', str(cache / 'gpt1_jax'))
    real = inspect.signature(huggingface_hub.snapshot_download)

    def checked(*given, **named):
        real.bind(*given, **named)  # the library has these arguments
        return hub.snapshot_download(*given, **named)

    monkeypatch.setattr(huggingface_hub, 'snapshot_download', checked)
    try:
        yield hub
    finally:
        monkeypatch.setattr(huggingface_hub, 'snapshot_download', hub.offline)
        download.cache_clear()

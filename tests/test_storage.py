"""Files in a directory and in an object store: the same calls, the same results."""

import hashlib
import os
import pathlib
import pwd

import pytest

import emulator
from gpt1_jax import storage
from gpt1_jax.errors import UserError, os_errors_in_one_line
from refusal import refusal


@pytest.fixture
def remote(tmp_path, monkeypatch):
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    return storage.path(f'{emulator.bucket()}/{tmp_path.name}')


@pytest.fixture(params=['directory', 'object store'])
def place(request, tmp_path):
    return (
        storage.path(tmp_path)
        if request.param == 'directory'
        else request.getfixturevalue('remote')
    )


def test_what_is_written_is_read(place):
    file = place / 'a' / 'b' / 'c'
    storage.mkdir(file.parent)
    for data in (b'', b'\0\xff' * 3_000_000, b'\r', b'last'):
        storage.write(file, data)
        assert storage.read(file) == data and storage.size(file) == len(data)
        assert storage.sha256(file) == hashlib.sha256(data).hexdigest()
    storage.write(place / 'a' / 'd', b'd')
    found = {name: storage.read(file) for name, file in storage.files(place / 'a').items()}
    assert found == {'b/c': b'last', 'd': b'd'}
    value = {'name': 'café', 'half a surrogate pair': '\ud800', 'list': [1, 2.5, None, True]}
    storage.write_json(place / 'x.json', value)
    assert storage.read_json(place / 'x.json') == value


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    storage.write(tmp_path / 'x', b'old')
    monkeypatch.setattr(
        os, 'fsync', lambda number: (_ for _ in ()).throw(OSError(28, 'No space left on device'))
    )
    with pytest.raises(OSError, match='No space left'):
        storage.write(tmp_path / 'x', b'new')
    assert storage.read(tmp_path / 'x') == b'old'


def test_a_file_is_flushed_to_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ('fsync', 'replace'):

        def noted(*given, name=name, call=getattr(os, name)):
            calls.append(name)
            call(*given)

        monkeypatch.setattr(os, name, noted)
    storage.write(tmp_path / 'x', b'new')
    assert calls == ['fsync', 'replace'] and storage.read(tmp_path / 'x') == b'new'


@pytest.mark.parametrize('name', ['run', 'linked'])
def test_a_file_takes_the_place_of_links_and_pipes_and_leaves_what_they_lead_to(tmp_path, name):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'linked').symlink_to('run')  # the directory itself may be a link
    (tmp_path / 'victim').write_bytes(b'kept')
    for file in ('a', 'b.partial', 'c', 'd.partial'):
        if file < 'c':
            (tmp_path / 'run' / file).symlink_to('../victim')
        else:
            os.mkfifo(tmp_path / 'run' / file)
    for file in 'abcd':
        storage.write(tmp_path / name / file, b'new')
        assert (
            storage.read(tmp_path / 'run' / file) == b'new'
            and not (tmp_path / 'run' / file).is_symlink()
        )
    assert (
        storage.read(tmp_path / 'victim') == b'kept'
        and len(list((tmp_path / 'run').iterdir())) == 4
    )


def test_of_a_name_that_a_user_gave_a_link_stays_one_and_a_pipe_is_written_to(tmp_path):
    (tmp_path / 'link').symlink_to(tmp_path / 'x')
    storage.write(tmp_path / 'link', b'new', follow=True)
    assert (tmp_path / 'link').is_symlink() and storage.read(tmp_path / 'x') == b'new'
    os.mkfifo(tmp_path / 'pipe')
    reader = os.open(tmp_path / 'pipe', os.O_RDONLY | os.O_NONBLOCK)
    storage.write(tmp_path / 'pipe', b'rows', follow=True)
    assert os.read(reader, 9) == b'rows' and (tmp_path / 'pipe').is_fifo()
    os.close(reader)


@pytest.mark.parametrize('name', ['s3://bucket/run', 'gs:///run'])
def test_another_scheme_is_refused(name):
    with pytest.raises(UserError, match=f'^{name}: neither a local path nor gs://BUCKET/...$'):
        storage.path(name)


def test_a_bucket_that_does_not_exist_is_named_when_it_is_written_to():
    emulator.bucket()
    with pytest.raises(OSError, match="no such bucket: 'gs://no-such-bucket/run/x'"):
        storage.write('gs://no-such-bucket/run/x', b'')


def test_an_object_is_copied_once_and_again_where_the_copy_is_another(remote, tmp_path):
    storage.write(remote / 'a' / 'x.bin', b'tokens')
    expected = hashlib.sha256(b'tokens').hexdigest()
    copy = storage.fetch(remote / 'a' / 'x.bin', expected)
    assert copy.read_bytes() == b'tokens' and copy.is_relative_to(tmp_path / 'cache')
    time = os.stat(copy).st_mtime_ns
    assert storage.fetch(remote / 'a' / 'x.bin', expected) == copy
    assert os.stat(copy).st_mtime_ns == time
    copy.write_bytes(b'tokenz')
    assert storage.fetch(remote / 'a' / 'x.bin', expected).read_bytes() == b'tokens'
    assert len(list(copy.parent.iterdir())) == 1


def test_an_object_that_is_damaged_is_named_and_not_kept(remote):
    storage.write(remote / 'x.bin', b'token')
    with pytest.raises(
        UserError,
        match='^gs://bucket/.*/x.bin: damaged, its SHA-256 is not the one in the manifest$',
    ):
        storage.fetch(remote / 'x.bin', hashlib.sha256(b'tokens').hexdigest())
    assert not list(storage.cache(remote).iterdir())
    with pytest.raises(UserError, match='^[^\n]*y.bin: [^\n]*$'), os_errors_in_one_line():
        storage.fetch(remote / 'y.bin', '')


def test_a_user_without_a_home_has_a_cache_as_in_a_container(monkeypatch):
    for name in ('HOME', 'GPT1_JAX_CACHE'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, 'getpwuid', lambda number: {}[number])
    assert storage.cache('a/b') == pathlib.Path('/.cache/gpt1_jax/a/b')


def test_a_cache_that_cannot_be_made_names_its_variable(tmp_path, monkeypatch):
    (tmp_path / 'file').touch()
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'file'))
    said = refusal(storage.mkdir, storage.cache('imported'))
    line = f'{tmp_path}/file/imported: Not a directory'
    assert said == f'{line}: set GPT1_JAX_CACHE to a directory that can be written'
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'other'))
    assert refusal(storage.mkdir, tmp_path / 'file' / 'imported') == line


def test_a_directory_is_uploaded_with_the_file_that_completes_it_last(
    remote, tmp_path, monkeypatch
):
    for name in 'abz':
        (tmp_path / name).write_text(name)
    order = []
    opened = type(remote).open
    monkeypatch.setattr(
        type(remote), 'open', lambda path, mode: order.append(path.name) or opened(path, mode)
    )
    storage.upload(tmp_path, remote, last='a')
    assert order == ['b', 'z', 'a'] and storage.read(remote / 'z') == b'z'


def test_the_digest_of_a_json_value_is_that_of_its_text_with_sorted_keys():
    expected = hashlib.sha256(b'{"a": [1, "x"], "b": null}').hexdigest()
    assert storage.json_digest({'b': None, 'a': (1, 'x')}) == expected

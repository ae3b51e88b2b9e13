"""What pip gets: the wheel is the package with its configs and the command gpt1, the sdist all that
runs from a clone.
On each Python: on_pythons.sh"""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

from gpt1_jax.__main__ import PAGES
from gpt1_jax.runs import provenance
from tiny import ROOT, command, corpus, python, small_flags

pytestmark = pytest.mark.full

pytest.importorskip('setuptools')


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """{'wheel', 'sdist'}: the archives of a copy of the clone, made by what pip calls."""
    base = tmp_path_factory.mktemp('packaging')
    anywhere = shutil.ignore_patterns(
        '.venv*', '*.egg-info', '__pycache__', '.pytest_cache', '.ruff_cache'
    )

    def ignored(folder, names):
        outputs = {'.git', 'runs', 'build', 'dist'} if pathlib.Path(folder) == ROOT else set()
        return outputs | anywhere(folder, names)

    shutil.copytree(ROOT, base / 'clone', ignore=ignored)
    code = f'from setuptools import build_meta as b; b.build_wheel({str(base)!r}); b.build_sdist({str(base)!r})'
    python('-c', code, cwd=base / 'clone', check=0)
    (wheel,), (sdist,) = base.glob('*.whl'), base.glob('*.tar.gz')
    return {'wheel': wheel, 'sdist': sdist}


def sources(*folders):
    return {
        str(file.relative_to(ROOT))
        for folder in folders
        for file in (ROOT / folder).rglob('*')
        if file.is_file() and '__pycache__' not in file.parts
    }


def test_the_wheel_holds_the_package_its_configs_and_the_pages_of_gpt1_help_alone(built):
    with zipfile.ZipFile(built['wheel']) as archive:
        names = {name for name in archive.namelist() if '.dist-info/' not in name}
    files = sources('gpt1_jax') | {f'gpt1_jax/{name}' for name in sources('configs', 'docs')}
    # But the model's card, and those that gpt1 help prints
    pages = {name for name in files if name.endswith('.md') and '/novels/' not in name}
    printed = {f'{package.replace(".", "/")}/{file}' for package, file in PAGES.values()}
    assert printed <= files and names == files - pages | printed


@pytest.fixture(scope='module')
def installed(built, tmp_path_factory):
    """(run, directory): run(*words) runs a program of a fresh virtual environment that has the
    wheel, and the libraries of this one; in an empty directory."""
    base = tmp_path_factory.mktemp('installed')
    programs = base / 'venv' / 'bin'
    empty = base / 'empty'
    empty.mkdir()
    venv.create(base / 'venv', with_pip=False)
    (packages,) = (base / 'venv' / 'lib').glob('python*/site-packages')
    # Folders on a .pth line are searched, but their own .pth files are not read: an editable
    # install stays out.
    libraries = {sysconfig.get_path(kind) for kind in ('purelib', 'platlib')}
    (packages / 'libraries.pth').write_text('\n'.join(sorted(libraries)))

    def run(*words, check=0):
        environment = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
        words = [str(programs / words[0]), *map(str, words[1:])]
        done = subprocess.run(words, cwd=empty, env=environment, capture_output=True, text=True)
        assert done.returncode == check, done.stdout + done.stderr
        return done

    run(
        sys.executable,
        '-m',
        'pip',
        '--python',
        programs / 'python',
        'install',
        '-q',
        '--no-deps',
        # The libraries may include this version of the package
        '--ignore-installed',
        built['wheel'],
    )
    return run, empty


def test_the_command_lists_the_programs_of_the_same_code(installed):
    run, empty = installed
    listed = run('gpt1').stdout
    assert '  pretrain ' in listed and run('python', '-m', 'gpt1_jax').stdout == listed
    assert "'pretrian', did you mean 'pretrain'?" in run('gpt1', 'pretrian', check=2).stderr
    code = 'import gpt1_jax\nfrom gpt1_jax.runs import provenance\nprint(provenance.code_digest(), gpt1_jax.__file__)'
    digest, where = run('python', '-c', code).stdout.split()
    assert where.startswith(str(empty.parent)) and digest == provenance.code_digest()


def test_the_command_prints_the_pages_that_error_lines_name(installed):
    run, _ = installed
    for topic, (package, file) in PAGES.items():
        shown = run('gpt1', 'help', topic).stdout
        folder = ROOT / re.sub(r'gpt1_jax\.(configs|docs)$', r'\1', package).replace('.', '/')
        assert shown == (folder / file).read_text().rstrip() + '\n'
        assert shown == command('help', topic).stdout  # in a clone
    assert ', did you mean' in run('gpt1', 'help', 'coming', check=2).stderr
    refused = run('gpt1', 'metrics', '--block_size=8', check=2).stderr
    assert re.search(r'gpt1 help (\w+)', refused)[1] in PAGES


def test_a_packaged_config_trains_from_an_empty_directory(installed, tmp_path):
    run, empty = installed
    flags = small_flags(train__steps=2, data__corpus=corpus(tmp_path / 'text'))
    done = run('gpt1', 'pretrain', '--config=pretrain', '--workdir=run', *flags)
    assert 'step 2/2' in done.stdout and (empty / 'run' / 'config.json').exists()


def test_the_sdist_holds_all_that_runs_from_a_clone(built):
    with tarfile.open(built['sdist']) as archive:
        names = {
            name.partition('/')[2]
            for name in archive.getnames()
            if not archive.getmember(name).isdir()
        }
    own = {name for name in names if '.egg-info/' not in name} - {'PKG-INFO', 'MANIFEST.in'}
    assert own == sources('gpt1_jax', 'configs', 'docs', 'experiments', 'tests') | {
        'README.md',
        'CONTRIBUTING.md',
        'CHANGELOG.md',
        'LICENSE',
        'CITATION.cff',
        'constraints.txt',
        'setup.cfg',
        'pyproject.toml',
    }


def test_the_metadata_and_the_pages_agree(built):
    with zipfile.ZipFile(built['wheel']) as archive:
        names = archive.namelist()
        (name,) = [name for name in names if name.endswith('.dist-info/METADATA')]
        metadata = email.message_from_bytes(archive.read(name))
    assert any(name.endswith('/LICENSE') for name in names)
    extras = (ROOT / 'configs' / 'README.md').read_text()
    for extra in {*metadata.get_all('Provides-Extra')} - {'test'}:
        assert f'`{extra}`' in extras
    pythons = re.findall(r'Python :: 3\.(\d+)', str(metadata.get_all('Classifier')))
    assert metadata['Requires-Python'] == f'<3.{int(pythons[-1]) + 1},>=3.{pythons[0]}'
    assert f'Python 3.{pythons[0]} to 3.{pythons[-1]}' in (ROOT / 'README.md').read_text()
    assert f'version: {metadata["Version"]}' in (ROOT / 'CITATION.cff').read_text()

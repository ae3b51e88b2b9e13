"""Section 4.1: a corpus prepared in parts is the corpus prepared at once."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import yaml

from gpt1_jax.data import bpe_training, prepared
from gpt1_jax.data.corpus import Join
from gpt1_jax.data.parts import Part
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import merge, prepare
from tiny import ROOT, command, sentence

LAUNCH = ROOT / 'experiments' / 'launch'


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """A directory with corpus/, valid.txt, a tokenizer in vocabulary/, and all of corpus/ prepared
    in whole/."""
    here = tmp_path_factory.mktemp('made')
    files = here / 'corpus'
    files.mkdir()
    rng = random.Random(0)
    texts = ['\n'.join(sentence(rng) for _ in range(rng.randint(1, 30))) for _ in range(80)]
    for i, text in enumerate(texts[:10]):
        (files / f'{i}.txt').write_text(text)
    rows = pyarrow.table({'text': texts[10:60]})
    pyarrow.parquet.write_table(rows, files / 'a.parquet', row_group_size=7)
    lines = [json.dumps({'text': text}) for text in texts[60:]]
    (files / 'b.jsonl').write_text('\n'.join(lines))
    (here / 'valid.txt').write_text('\n'.join(sentence(rng) for _ in range(150)))
    bpe_training.train(texts, merges=60).save(here / 'vocabulary')
    prepare(here / 'whole', **arguments(here))
    return here


def arguments(made, **others):
    return (
        dict(
            corpus=str(made / 'corpus'),
            valid=0.2,
            tokenizer=str(made / 'vocabulary'),
            shard_tokens=500,
        )
        | others
    )


def streams(directory):
    return [
        np.concatenate(prepared.open_split(directory, split, verify=True).shards).tolist()
        for split in ('train', 'valid')
    ]


def totals(manifest):
    return {
        split: {name: value for name, value in entry.items() if name != 'shards'}
        for split, entry in manifest['splits'].items()
    }


def all_parts(out, count, given):
    for i in range(count):
        prepare(out, **given, part=Part(i, count))


@pytest.mark.parametrize(
    'count, change', [(40, {}), (3, dict(valid='valid.txt', join=Join(characters=900)))]
)
def test_the_merged_streams_are_those_of_one_run(made, tmp_path, monkeypatch, count, change):
    monkeypatch.chdir(made)
    whole = prepare(tmp_path / 'whole', **arguments(made, **change))
    all_parts(tmp_path / 'out', count, arguments(made, **change))
    manifest = merge(tmp_path / 'out')
    assert manifest == prepared.read_manifest(tmp_path / 'out', whole['tokenizer'])
    assert totals(manifest) == totals(whole) and totals(whole)['valid']['documents'] > 0
    assert manifest['inputs'] == whole['inputs'] | {'parts': count}
    assert merge(tmp_path / 'out') == manifest
    (tmp_path / 'out').rename(tmp_path / 'moved')
    assert streams(tmp_path / 'moved') == streams(tmp_path / 'whole')


def test_a_copy_of_validation_text_is_refused_in_whichever_part_it_is(made, tmp_path):
    texts = pyarrow.parquet.read_table(made / 'corpus' / 'a.parquet').column('text').to_pylist()
    text = max(texts, key=len)
    (tmp_path / 'copy.txt').write_text(text)
    refused = []
    for i in range(4):
        try:
            given = arguments(made, valid=str(tmp_path / 'copy.txt'))
            prepare(tmp_path / 'out', **given, part=Part(i, 4))
        except UserError as error:
            refused.append(str(error))
    (refusal,) = refused
    assert len(text) >= 1000
    assert f'a.parquet: row {texts.index(text)} has the same text as' in refusal


def damage_shard(part):
    shard = part / 'train' / '00000.bin'
    shard.write_bytes(shard.read_bytes()[:-2] + b'xx')


def of_another_corpus(part):
    shutil.rmtree(part)
    other = part.parent / 'other.txt'
    other.write_text('The cat sat. ' * 99)
    prepare(
        part.parent,
        str(other),
        0.2,
        str(part.parent / Part(0, 3).name / 'tokenizer'),
        part=Part(1, 3),
    )


@pytest.mark.parametrize(
    'damage, message',
    [
        (
            of_another_corpus,
            '-00001-of-00003 was prepared from other inputs than part 0: corpus was 1[0-9] files',
        ),
        (shutil.rmtree, 'out: part 1 of 3 is missing or not finished: run it with --part=1/3'),
        (
            damage_shard,
            '-00001-of-00003/train/00000.bin: damaged, its SHA-256 is not the one in the manifest',
        ),
        (
            lambda part: shutil.copytree(part, part.with_name(Part(1, 4).name)),
            'out: parts of 3 and of 4 are there: delete those that do not belong',
        ),
    ],
)
def test_parts_that_cannot_be_merged_are_named(made, tmp_path, damage, message):
    all_parts(tmp_path / 'out', 3, arguments(made))
    damage(tmp_path / 'out' / Part(1, 3).name)
    with pytest.raises(UserError, match=message):
        merge(tmp_path / 'out')
    assert not (tmp_path / 'out' / 'manifest.json').exists()


@pytest.mark.full
@pytest.mark.parametrize('variable', ['JOB_COMPLETION_INDEX', 'SLURM_ARRAY_TASK_ID'])
def test_killed_parts_go_on_and_merge_to_the_stream_of_one_run(made, tmp_path, variable):
    """The first is killed, in a process as an indexed Job or SLURM's array starts it."""
    given = arguments(made, processes=1)
    out = tmp_path / 'out'
    flags = [f'--{name}={value}' for name, value in given.items() if name != 'shard_tokens']
    words = [sys.executable, '-m', 'gpt1_jax', 'prepare', f'--out={out}', '--part=/2', *flags]
    killed = subprocess.Popen(words, cwd=ROOT, env=os.environ | {variable: '0'})
    while not (out / Part(0, 2).name / 'tokenizer' / 'tokenizer.json').exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    with pytest.raises(UserError, match='part 0, 1 of 2 is missing or not finished'):
        merge(out)
    all_parts(out, 2, arguments(made) | {'shard_tokens': 8388608})
    assert command('prepare', f'--out={out}', '--merge', check=0).stdout.startswith('train: ')
    assert streams(out) == streams(made / 'whole')


def test_the_recipes_give_each_part_its_flags():
    """A part is started with them above."""
    script = (LAUNCH / 'prepare_slurm.sh').read_text().partition('# Then')[0]
    job = yaml.safe_load((LAUNCH / 'prepare_kubernetes.yaml').read_text())['spec']
    (container,) = job['template']['spec']['containers']
    assert (job['completionMode'], job['completions']) == ('Indexed', 16)
    assert container['command'][-1] == '--part=/16'
    for words in (script, ' '.join(container['command'])):
        flags = re.findall('--(out|corpus|valid|tokenizer|part)=', words)
        assert flags == ['out', 'corpus', 'valid', 'tokenizer', 'part']

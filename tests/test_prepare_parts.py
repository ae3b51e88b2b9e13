"""Section 4.1: a corpus prepared in parts is the corpus prepared at once."""

import json
import os
import random
import shutil
import signal
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
    (here / 'corpus').mkdir()
    rng = random.Random(0)
    texts = ['\n'.join(sentence(rng) for _ in range(rng.randint(1, 30))) for _ in range(90)]
    for i, text in enumerate(texts[:10]):
        (here / 'corpus' / f'{i}.txt').write_text(text)
    pyarrow.parquet.write_table(
        pyarrow.table({'text': texts[10:60]}), here / 'corpus' / 'a.parquet', row_group_size=7
    )
    (here / 'corpus' / 'b.jsonl').write_text(
        ''.join(json.dumps({'text': text}) + '\n' for text in texts[60:80])
    )
    (here / 'valid.txt').write_text('\n'.join(texts[80:]))
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
    'count, change',
    [
        (5, {}),
        (40, {}),
        (3, dict(join=Join(characters=900))),
        (3, dict(valid='valid.txt', join=Join(characters=900))),
    ],
)
def test_the_merged_streams_are_those_of_one_run(made, tmp_path, monkeypatch, count, change):
    monkeypatch.chdir(made)
    whole = prepare(tmp_path / 'whole', **arguments(made, **change))
    all_parts(tmp_path / 'out', count, arguments(made, **change))
    manifest = merge(tmp_path / 'out')
    assert manifest == prepared.read_manifest(tmp_path / 'out', whole['tokenizer'])
    assert totals(manifest) == totals(whole) and totals(whole)['valid']['documents'] > 0
    assert manifest['inputs'] == whole['inputs'] | {'parts': count}
    assert streams(tmp_path / 'out') == streams(tmp_path / 'whole')


def test_a_copy_of_validation_text_is_refused_in_whichever_part_it_is(made, tmp_path):
    texts = pyarrow.parquet.read_table(made / 'corpus' / 'a.parquet').column('text').to_pylist()
    row, text = max(enumerate(texts), key=lambda item: len(item[1]))
    (tmp_path / 'copy.jsonl').write_text(
        json.dumps({'text': 'New.'}) + '\n' + json.dumps({'text': text}) + '\n'
    )
    refused = []
    for i in range(4):
        try:
            prepare(
                tmp_path / 'out',
                **arguments(made, valid=str(tmp_path / 'copy.jsonl')),
                part=Part(i, 4),
            )
        except UserError as error:
            refused.append(str(error))
    assert (
        len(text) >= 1000
        and len(refused) == 1
        and f'a.parquet: row {row} has the same text as' in refused[0]
    )


def test_a_merged_manifest_lists_the_shards_of_the_parts(made, tmp_path):
    all_parts(tmp_path / 'out', 3, arguments(made))
    manifest = merge(tmp_path / 'out')
    assert merge(tmp_path / 'out') == manifest
    assert not (tmp_path / 'out' / 'train').exists()
    (tmp_path / 'out').rename(tmp_path / 'moved')
    assert streams(tmp_path / 'moved') == streams(made / 'whole')
    damage_shard(tmp_path / 'moved' / Part(1, 3).name)
    with pytest.raises(UserError, match='part-00001-of-00003/train/00000.bin: damaged, its SHA'):
        prepared.open_split(tmp_path / 'moved', 'train', verify=True)


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
def test_killed_parts_go_on_and_merge_to_the_stream_of_one_run(made, tmp_path):
    """Each part is killed once, in a process as an indexed Job or SLURM's array starts it."""
    rng = random.Random(1)
    texts = ['\n'.join(sentence(rng) for _ in range(300)) for _ in range(12)]
    pyarrow.parquet.write_table(
        pyarrow.table({'text': texts}), tmp_path / 'a.parquet', row_group_size=1
    )
    given = dict(
        corpus=str(tmp_path / 'a.parquet'),
        valid='0.3',
        tokenizer=str(made / 'vocabulary'),
        processes=1,
    )
    prepare(tmp_path / 'whole', **given)
    out = tmp_path / 'out'
    for i in range(2):
        killed = subprocess.Popen(
            [
                sys.executable,
                '-m',
                'gpt1_jax',
                'prepare',
                f'--out={out}',
                '--part=/2',
                *(f'--{name}={value}' for name, value in given.items()),
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {('JOB_COMPLETION_INDEX', 'SLURM_ARRAY_TASK_ID')[i]: str(i)},
        )
        while not (out / Part(i, 2).name / 'tokenizer' / 'tokenizer.json').exists():
            assert killed.poll() is None
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        with pytest.raises(UserError, match='part (0, )?1 of 2 is missing or not finished'):
            merge(out)
        prepare(out, **given, part=Part(i, 2))
    assert command('prepare', f'--out={out}', '--merge', check=0).stdout.startswith('train: ')
    assert streams(out) == streams(tmp_path / 'whole')


def test_the_recipes_give_each_part_its_flags(tmp_path):
    """A part is started with them above."""
    gpt1 = tmp_path / '.venv' / 'bin' / 'gpt1'
    gpt1.parent.mkdir(parents=True)
    gpt1.write_text('#!/bin/sh\necho "$@"\n')
    gpt1.chmod(0o755)
    given = {'CORPUS': 'corpus', 'TOKENIZER': 'vocabulary', 'OUT': 'out', 'PARTS': '16'}
    done = subprocess.run(
        ['bash', str(LAUNCH / 'prepare_slurm.sh')],
        cwd=tmp_path,
        env=os.environ | given,
        check=True,
        capture_output=True,
        text=True,
    )
    expected = [
        'prepare',
        '--out=out',
        '--corpus=corpus',
        '--valid=0.01',
        '--tokenizer=vocabulary',
        '--part=/16',
    ]
    assert done.stdout.split() == expected
    job = yaml.safe_load((LAUNCH / 'prepare_kubernetes.yaml').read_text())['spec']
    (container,) = job['template']['spec']['containers']
    assert (job['completionMode'], job['completions'], container['command'][-1]) == (
        'Indexed',
        16,
        expected[-1],
    )
    assert [word.split('=')[0] for word in container['command'][1:]] == [
        word.split('=')[0] for word in expected
    ]

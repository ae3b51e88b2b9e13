"""Each program from the command line, on the files of the program before: it works, it is started
again, and a mistake in its flags is one line."""

import re
import types

import numpy as np
import pytest

from gpt1_jax.data import prepared
from gpt1_jax.runs import checkpoint, results
from tiny import cola, command, corpus, small_flags

WAIT = 900  # seconds for one program, where a machine is busy


def run(program, *flags):
    return command(program, *flags, check=0, timeout=WAIT).stdout


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """The directories `base`, `cola` and those that `prepare`, `pretrain` and `finetune` wrote;
    `printed` by these."""
    base = tmp_path_factory.mktemp('programs')
    corpus(base / 'text')
    made = types.SimpleNamespace(
        base=base,
        cola=cola(base / 'cola'),
        tokens=base / 'tokens',
        pretrained=base / 'pretrained',
        tuned=base / 'tuned',
    )
    made.pretraining = (
        f'--workdir={made.pretrained}',
        '--config=configs/pretrain.py',
        *small_flags(
            model__n_ctx=32,
            train__steps=10,
            checkpoint__every=10,
            log_every=2,
            data__tokens=made.tokens,
        ),
    )
    made.printed = {
        'prepare': run(
            'prepare',
            f'--out={made.tokens}',
            f'--corpus={base / "text"}',
            '--valid=0.2',
            '--merges=60',
            '--processes=1',
        ),
        'pretrain': run('pretrain', *made.pretraining),
        'finetune': run(
            'finetune',
            '--config=configs/finetune.py:cola',
            f'--workdir={made.tuned}',
            f'--config.init_from={made.pretrained}',
            f'--config.data.dir={made.cola}',
            '--config.data.n_ctx=16',
            '--config.batch.size=8',
            '--config.batch.eval_size=8',
            '--config.train.epochs=1',
        ),
    }
    return made


def test_pretrain_learns_logs_and_saves_and_started_again_has_nothing_to_do(made):
    assert (
        made.printed['prepare'].startswith('train: ')
        and prepared.read_manifest(made.tokens)['splits']
    )
    rows = results.read(made.pretrained / 'metrics.jsonl')
    losses = [row['loss'] for row in rows if 'loss' in row]
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert 'step 10/10  loss' in made.printed['pretrain']
    assert checkpoint.steps(made.pretrained / 'checkpoints')[-1] == 10
    run('pretrain', *made.pretraining)
    assert results.read(made.pretrained / 'metrics.jsonl') == rows


def test_finetune_scores_the_dev_set_and_metrics_recomputes_its_figures(made):
    assert 'cola dev: matthews' in made.printed['finetune']
    figures = {row['metric']: row['value'] for row in results.read(made.tuned / 'results.jsonl')}
    assert figures.keys() == {'matthews', 'accuracy'}
    recomputed = run('metrics', f'--predictions={made.tuned}/predictions_dev.jsonl')
    assert all(f'{value:.4f}' in recomputed for value in figures.values())
    assert 'cola train: accuracy' in run(
        'finetune', f'--workdir={made.tuned}', '--evaluate_only', '--split=train'
    )


@pytest.mark.full
def test_predict_answers_the_dev_set_as_finetune_s_evaluation_did(made, tmp_path):
    rows = [line.split('\t') for line in (made.cola / 'dev.tsv').read_text().splitlines()]
    new = tmp_path / 'new.tsv'
    out = tmp_path / 'answers.jsonl'
    new.write_text('sentence\n' + ''.join(f'{row[3]}\n' for row in rows))
    run('predict', f'--init_from={made.tuned}', f'--input={new}', f'--output={out}')
    scored = results.read(made.tuned / 'predictions_dev.jsonl')
    expected = [int(np.argmax(row['scores'])) for row in scored]
    assert [int(row['label']) for row in results.read(out)] == expected


@pytest.mark.full
def test_zero_shot_scores_the_dev_set(made):
    assert 'cola zero-shot, step 10: matthews' in run(
        'zero_shot',
        '--config=configs/zero_shot.py:cola',
        f'--config.init_from={made.pretrained}',
        f'--config.data.dir={made.cola}',
        '--config.step=10',
    )


@pytest.mark.full
def test_perplexity_of_the_validation_tokens_is_pretraining_s(made):
    shown = run('perplexity', f'--init_from={made.pretrained}', f'--tokens={made.tokens}')
    rows = results.read(made.pretrained / 'metrics.jsonl')
    (*_, valid) = [row['valid_perplexity'] for row in rows if 'valid_perplexity' in row]
    found = float(re.search(r'perplexity per token +([\d.]+)', shown)[1])
    assert found == pytest.approx(valid, rel=0.02)  # pretraining took 16 windows of them


@pytest.mark.full
def test_generate_continues_a_prompt_as_often_as_it_is_asked(made):
    flags = f'--init_from={made.pretrained} --tokens=12 --samples=2 --stop=such'.split()
    texts = re.findall('^the cat, who .+', run('generate', *flags, '--prompt=The cat, who'), re.M)
    assert len(texts) == 2 and len(set(texts)) == 2


# HERE: the directory above, where `pretrained` and `tuned` are. What begins with a .py file is the
# value of --config.
@pytest.mark.full
@pytest.mark.parametrize(
    'program, flags, message',
    [
        ('prepare', '--out=HERE/out --merge --valid=0.1', '--merge'),
        ('pretrain', 'pretrain.py --workdir=HERE/out', 'config.data.corpus'),
        (
            'pretrain',
            'pretrain.py --workdir=HERE/text --config.data.corpus=HERE/text '
            '--config.tokenizer.merges=50',
            'text: neither empty nor a run directory',
        ),
        (
            'finetune',
            'finetune.py:cola --workdir=HERE/out --config.data.dir=HERE/cola',
            '--config.init_from=',
        ),
        ('perplexity', '--init_from=HERE/pretrained --text=HERE/text --split=valid', '--split'),
        ('generate', '--init_from=HERE/pretrained --prompt=cat --temperature=-1', 'temperature'),
        (
            'predict',
            '--init_from=HERE/pretrained --input=HERE/cola/dev.tsv --output=HERE/out',
            'not a fine-tuned run',
        ),
    ],
)
def test_a_mistake_is_one_line(made, program, flags, message):
    config = '--config=configs/' if '.py' in flags else ''
    done = command(
        program, *f'{config}{flags}'.replace('HERE', str(made.base)).split(), timeout=WAIT
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
    assert done.returncode in (1, 2) and len(errors) == 1 and 'Traceback' not in done.stderr, (
        done.stderr
    )
    assert message in errors[0]

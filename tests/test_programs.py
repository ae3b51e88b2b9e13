"""Each program from the command line, one on what the one before it wrote: it works, it is started again, and a mistake
in its flags is one line."""
import re

import numpy as np
import pytest

from gpt1_jax.data import tokens
from gpt1_jax.runs import checkpoint, results
from tiny import cola, command, corpus

WAIT = 900  # seconds for one program, where a machine is busy
PRETRAIN = ('--config=configs/pretrain.py', '--config.model.n_layer=2', '--config.model.n_embd=16',
            '--config.model.n_head=4', '--config.model.n_inner=32', '--config.model.n_ctx=32', '--config.batch.size=8',
            '--config.optimizer.warmup_steps=2', '--config.optimizer.peak_rate=1e-2', '--config.log_every=2',
            '--config.eval.windows=16', '--config.eval.batch_size=8', '--config.train.steps=10')


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    base = tmp_path_factory.mktemp('programs')
    corpus(base / 'text')
    cola(base / 'cola')
    return base


@pytest.fixture(scope='module')
def prepared(directory):
    """(directory of the tokens, what `prepare` printed)."""
    out = directory / 'tokens'
    done = command('prepare', f'--out={out}', f'--corpus={directory / "text"}', '--valid=0.2', '--merges=60',
                   '--processes=1', check=0, timeout=WAIT)
    return out, done.stdout


@pytest.fixture(scope='module')
def pretrained(directory, prepared):
    """(work directory, what `pretrain` printed)."""
    run = directory / 'pretrained'
    done = command('pretrain', f'--workdir={run}', *PRETRAIN, f'--config.data.tokens={prepared[0]}', check=0,
                   timeout=WAIT)
    return run, done.stdout


@pytest.fixture(scope='module')
def tuned(directory, pretrained):
    """(work directory, what `finetune` printed)."""
    run = directory / 'tuned'
    done = command('finetune', '--config=configs/finetune.py:cola', f'--workdir={run}',
                   f'--config.init_from={pretrained[0]}', f'--config.data.dir={directory / "cola"}',
                   '--config.data.n_ctx=16', '--config.batch.size=8', '--config.batch.eval_size=8',
                   '--config.train.epochs=1', check=0, timeout=WAIT)
    return run, done.stdout


def test_prepare_writes_tokens_of_training_and_validation_text(prepared):
    directory, shown = prepared
    splits = tokens.read_manifest(directory)['splits']
    assert splits['train']['documents'] + splits['valid']['documents'] == 16
    assert shown.startswith(f'train: {splits["train"]["documents"]} documents, ')


def test_pretrain_learns_logs_and_saves(pretrained):
    run, shown = pretrained
    rows = results.read(run / 'metrics.jsonl')
    losses = [row['loss'] for row in rows if 'loss' in row]
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert 'step 10/10  loss' in shown and 'validation loss' in shown
    assert checkpoint.steps(run / 'checkpoints')[-1] == 10


def test_pretrain_started_again_has_nothing_to_do_and_longer_it_resumes(directory, prepared, pretrained):
    run, _ = pretrained
    before = results.read(run / 'metrics.jsonl')
    again = (f'--workdir={run}', *PRETRAIN, f'--config.data.tokens={prepared[0]}')
    command('pretrain', *again, check=0, timeout=WAIT)
    assert results.read(run / 'metrics.jsonl') == before
    refused = command('pretrain', *again, '--config.train.steps=12', check=1, timeout=WAIT)
    assert 'train.steps: 10 -> 12' in refused.stderr and '--allow_change' in refused.stderr


def test_finetune_scores_the_dev_set_and_metrics_recomputes_its_figures(tuned):
    run, shown = tuned
    assert 'cola dev: matthews' in shown
    figures = {row['metric']: row['value'] for row in results.read(run / 'results.jsonl')}
    assert figures.keys() == {'matthews', 'accuracy'}
    recomputed = command('metrics', str(run / 'predictions_dev.jsonl'), check=0, timeout=WAIT).stdout
    for value in figures.values():
        assert f'{value:.4f}' in recomputed


def test_predict_answers_the_dev_set_as_finetune_s_evaluation_did(directory, tuned):
    run, _ = tuned
    rows = [line.split('\t') for line in (directory / 'cola' / 'dev.tsv').read_text().splitlines()]
    new, out = directory / 'new.tsv', directory / 'answers.jsonl'
    new.write_text('index\tsentence\n' + ''.join(f'{i}\t{row[3]}\n' for i, row in enumerate(rows)))
    command('predict', f'--init_from={run}', f'--input={new}', f'--output={out}', check=0, timeout=WAIT)
    expected = [int(np.argmax(row['scores'])) for row in results.read(run / 'predictions_dev.jsonl')]
    assert [int(row['label']) for row in results.read(out)] == expected


def test_finetune_evaluates_again_from_its_directory(tuned):
    run, _ = tuned
    shown = command('finetune', f'--workdir={run}', '--evaluate_only', '--split=train', check=0, timeout=WAIT).stdout
    assert 'cola train: accuracy' in shown and (run / 'predictions_train.jsonl').exists()


def test_zero_shot_scores_the_dev_set(directory, pretrained):
    run, _ = pretrained
    done = command('zero_shot', '--config=configs/zero_shot.py:cola', f'--config.init_from={run}',
                   f'--config.data.dir={directory / "cola"}', '--config.step=10', check=0, timeout=WAIT)
    assert 'cola zero-shot, step 10: matthews' in done.stdout


def test_perplexity_of_the_validation_tokens_is_pretraining_s(pretrained, prepared):
    run, _ = pretrained
    done = command('perplexity', f'--init_from={run}', f'--tokens={prepared[0]}', check=0, timeout=WAIT)
    found = float(re.search(r'perplexity per token +([\d.]+)', done.stdout)[1])
    valid = [row['valid_perplexity'] for row in results.read(run / 'metrics.jsonl') if 'valid_perplexity' in row]
    assert found == pytest.approx(valid[-1], rel=0.02)  # pretraining took 16 windows of them


def test_generate_goes_on_from_a_prompt(pretrained):
    run, _ = pretrained
    shown = command('generate', f'--init_from={run}', '--prompt=The cat', '--tokens=12', check=0, timeout=WAIT).stdout
    assert shown.startswith('the cat ') and len(shown) > len('the cat \n')


# HERE is the directory above, where `pretrained` and `tuned` are.
@pytest.mark.full
@pytest.mark.parametrize('program, flags, message', [
    ('prepare', '--out=HERE/out --corpus=absent --valid=0.1', 'absent: no such file'),
    ('prepare', '--out=HERE/out --valid=0.1', 'give --corpus'),
    ('prepare', '--out=HERE/out --merge --valid=0.1', '--merge'),
    ('pretrain', '--config=configs/pretrain.py', 'give --workdir=DIR'),
    ('pretrain', '--config=configs/pretrain.py --workdir=HERE/out', 'config.data.corpus'),
    ('pretrain', '--config=configs/pretrain.py --config.batch.sise=8', 'size'),
    ('pretrain', '--config=configs/pretrain.py --config.batch.size=many',
     '--config.batch.size=many: must be a whole number'),
    ('pretrain', '--config=configs/pretrain.py --batch_size=8', '--config.batch.size'),
    ('pretrain', '--config=configs/nothing.py --workdir=HERE/out', 'configs/nothing.py'),
    ('pretrain', '--config=configs/pretrain.py --workdir=HERE/text --config.data.corpus=HERE/text '
     '--config.tokenizer.merges=50', 'text: neither empty nor a run directory'),
    ('finetune', '--config=configs/finetune.py:cola --workdir=HERE/out --config.data.dir=HERE/cola',
     '--config.init_from='),
    ('zero_shot', '--config=configs/zero_shot.py:cola --config.init_from=HERE/pretrained --config.data.dir=nowhere',
     'nowhere'),
    ('perplexity', '--init_from=HERE/pretrained --text=nowhere', 'nowhere: no such file'),
    ('perplexity', '--init_from=HERE/pretrained --sentence=cat --split=valid', '--split'),
    ('generate', '--init_from=HERE/pretrained --prompt=cat --temperature=-1', 'temperature'),
    ('predict', '--init_from=HERE/pretrained --input=HERE/cola/dev.tsv --output=HERE/out', 'not a fine-tuned run'),
    ('metrics', 'HERE/absent.jsonl', 'absent.jsonl')])
def test_a_mistake_is_one_line(directory, pretrained, program, flags, message):
    done = command(program, *flags.replace('HERE', str(directory)).split(), timeout=WAIT)
    errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
    assert done.returncode in (1, 2) and len(errors) == 1 and 'Traceback' not in done.stderr, done.stderr
    assert message in errors[0]

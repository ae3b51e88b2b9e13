"""One run writes a work directory: another one is refused in a line."""

import pytest

from gpt1_jax import finetuning, prepare, pretraining
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import processes
from gpt1_jax.runs import checkpoint, lock, results, workdir
from tiny import cola, corpus, finetune_config, pretrain_config

pytestmark = pytest.mark.full


def steps(directory):
    return [row['step'] for row in results.read(directory / 'metrics.jsonl') if 'loss' in row]


@pytest.mark.parametrize('program', ['prepare', 'pretrain', 'finetune'])
def test_a_directory_that_another_process_writes_is_refused(pretrained, tmp_path, program):
    """test_lock.py has the lock itself, between processes."""
    text = corpus(tmp_path / 'text')
    run = tmp_path / 'run'
    start = {
        'prepare': lambda: prepare.prepare(run, str(text), '0.2', merges=20),
        'pretrain': lambda: pretraining.run(pretrain_config(text), run),
        'finetune': lambda: finetuning.run(
            finetune_config(
                'cola', cola(tmp_path / 'cola'), init_from=str(pretrained), data__n_ctx=16
            ),
            run,
        ),
    }
    with (
        lock.hold(run),
        pytest.raises(UserError, match=f'^another process .* holds the lock on {run}$'),
    ):
        start[program]()
    assert not run.exists()


def test_a_run_whose_lock_was_taken_over_stops_before_it_writes(pretrained, tmp_path, monkeypatch):
    def taken(lock):
        if lock.directory == tmp_path / 'run':
            raise UserError('process (pid 7 on far) has taken over')

    monkeypatch.setattr(lock.Lock, 'check', taken)
    with pytest.raises(UserError, match='has taken over'):
        pretraining.run(
            pretrain_config(
                '', data__corpus='', data__tokens=str(pretrained / 'tokens'), train__steps=4
            ),
            tmp_path / 'run',
        )
    assert not steps(tmp_path / 'run') and not workdir.load(tmp_path / 'run').steps()


def test_checkpoints_are_cleaned_up_everywhere_before_any_is_scored(
    pretrained, tmp_path, monkeypatch
):
    order = []

    def noted(module, name, say):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, **how: order.append(say(*given)) or original(*given, **how)
        )

    noted(checkpoint.Writer, 'close', lambda writer: 'close')
    noted(processes, 'barrier', lambda name: name)
    noted(finetuning, 'evaluate', lambda *given: 'score')
    finetuning.run(
        finetune_config(
            'cola',
            cola(tmp_path / 'cola'),
            init_from=str(pretrained),
            data__n_ctx=16,
            train__epochs=1,
        ),
        tmp_path / 'tuned',
    )
    assert order[order.index('close') :][:3] == ['close', 'the checkpoints are cleaned up', 'score']

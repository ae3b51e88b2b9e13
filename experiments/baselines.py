"""Baselines beside the fine-tuned tables: a constant answer, shared words, n-grams, and a linear probe of the frozen
model.

python -m experiments.baselines --config=configs/overnight_cpu.py --config.pretrained=novels --data=DATA \\
    --out=runs/paper/baselines.json [--task=stsb]

Needs scikit-learn (extra `baselines`). Trains and scores on the rows that fine-tuning uses with the same config; a set
takes seconds to a minute, most of it for the probes. The same probe of random weights shows what the architecture
brings without pretraining; without --config.pretrained there are no probes. Writes FILE and a Markdown table beside it;
sets that FILE already has with the same settings are skipped. The other scripts read baselines.json in config.out.
"""
import collections
import functools
import math
import pathlib
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict, config_flags

from experiments.benchmarks import record
from experiments.lib import paper, run_list, scores
from experiments.lib.markdown import table
from experiments.lib.run_list import Run
from gpt1_jax import cli, rules, storage
from gpt1_jax.data import splits, tasks
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, padding, task_metrics
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding

SCORES = tuple(dict.fromkeys([*paper.TABLE2, *paper.TABLE3, *paper.TABLE4, *sum(paper.GLUE.values(), ())]))
TOKENS = 8192  # that the frozen model reads at once


def run(config: ConfigDict, out: str | pathlib.Path, names: Sequence[str] = ()) -> list[dict]:
    """Compute the baselines of the paper's sets whose data exists, or of those named, and write `out` and its table.

    config: configs/experiments.py's. Returns the rows: {'task', 'split', 'group', 'baseline', 'metric', 'value' or
    None if it is undefined, 'n', 'train_rows', 'settings', and 'layer' of probes}.
    """
    out = pathlib.Path(out)
    rows = scores.baselines(out)
    config = config.copy_and_resolve_references()
    models = Models(config.pretrained) if config.pretrained else None
    config.pretrained = config.pretrained or 'none'
    for task in names or dict.fromkeys(score.task for score in SCORES):
        tuned = run_list.finetune_runs(config, task, 'full')[0]
        if not all(run_list.has_data(task, tuned.config.data.dir, split) for split in ('train', 'dev')):
            print(f'{task}: no data in {tuned.config.data.dir}', flush=True)
            continue
        for name in scores.BASELINES if models else ('constant', 'overlap', 'words'):
            model = models.origin if name in ('probe', 'random') else ''
            settings = storage.json_digest([tuned.config.data.to_dict(), model])[:16]
            if any((row['task'], row['baseline'], row['settings']) == (task, name, settings) for row in rows):
                continue
            found = [row | {'settings': settings} for row in of_task(tuned, name, models)]
            rows = [row for row in rows if (row['task'], row['baseline']) != (task, name)] + found
            record.write(str(out), {'rows': rows})
    out.with_suffix('.md').write_text('\n'.join(lines(rows)).rstrip() + '\n', encoding='utf-8')
    return rows


@functools.lru_cache(maxsize=3)  # the splits of one set
def _read(task, directory, split, limit):
    return splits.choose(tasks.get(task).read(directory, split), limit)


def of_task(run: Run, name: str, models: 'Models | None') -> Iterator[dict]:
    """Yields the rows of a baseline on the splits that fine-tuning scores."""
    from experiments.lib import baselines  # scikit-learn, an extra
    task, data = tasks.get(run.task), run.config.data
    train = _read(run.task, data.dir, 'train', data.train_rows)
    for split in run.splits:
        if split == 'train':
            continue
        rows, more = _read(run.task, data.dir, split, data.eval_rows), {}
        if name in ('probe', 'random'):
            states = functools.partial(models.states, pretrained=name == 'probe')
            answers, more['layer'] = baselines.probe(task, train, rows, states)
        else:
            answers = getattr(baselines, name)(task, train, rows)
        if answers is None:
            continue
        for row in task_metrics.rows(task, split, [one.id for one in rows], [one.label for one in rows], answers):
            value = row['value']
            print(f'{task.name} {split}, {scores.BASELINES[name]}: {row["metric"]} {100 * value:.1f}', flush=True)
            yield row | {'baseline': name, 'value': None if math.isnan(value) else round(value, 6),
                         'train_rows': len(train), **more}


class Models:
    """The frozen models of the probes: a pretrained run's, and the same with random weights."""

    def __init__(self, origin: str) -> None:
        run = load.open_pretrained(origin)
        self.origin, self.tokenizer, self.fields = run.path.name, run.tokenizer(), run.config['model']
        self.mesh = sharding.make_mesh(devices=jax.devices()[:1])
        self.model, params = load.pretrained(run, run.step(None), self.mesh)
        fresh = self.model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
        self.params = {True: params, False: fresh}

    def states(self, texts: Sequence[str], pretrained: bool) -> dict[int, np.ndarray]:
        """{layer: float32[n, D]}: the mean over a text's tokens of the hidden states after half of the layers, and
        after all. Of a text longer than the context the first tokens are read; one without tokens is zeros."""
        depth = self.model.config.n_layer
        return {n: self._after(texts, pretrained, n) for n in sorted({(depth + 1) // 2, depth})}

    def _after(self, texts, pretrained, layers):
        params = self.params[pretrained]
        params = params | {'blocks': jax.tree.map(lambda leaf: leaf[:layers], params['blocks'])}
        model = backbone(self.fields | {'n_layer': layers, 'unroll': 0})
        n_ctx = self.model.config.n_ctx
        by_length = collections.defaultdict(list)
        ids = [self._encode(text)[:n_ctx] for text in texts]
        for i, one in enumerate(ids):
            if one:
                by_length[padding.padded(len(one), n_ctx)].append(i)
        found = np.zeros((len(texts), self.model.config.n_embd), np.float32)
        for length, chosen in by_length.items():
            tokens = np.array([[*ids[i], *[0] * (length - len(ids[i]))] for i in chosen], np.int32)
            mask = (np.arange(length) < [[len(ids[i])] for i in chosen]).astype(np.float32)
            size = max(1, TOKENS // length)
            found[chosen] = padding.in_batches(functools.partial(_mean_states(model), params), size, tokens, mask)
        return found

    @functools.cache
    def _encode(self, text):
        return self.tokenizer.encode(text)


@functools.lru_cache
def _mean_states(model):
    @jax.jit
    def mean_states(params, tokens, mask):
        hidden, _ = model.apply({'params': params}, tokens)
        total = jnp.einsum('bld,bl->bd', hidden.astype(jnp.float32), mask)
        return total / jnp.maximum(mask.sum(-1, keepdims=True), 1)
    return mean_states


def lines(rows: Sequence[dict]) -> list[str]:
    """The Markdown table of all baselines."""
    body = []
    for score in SCORES:
        of = scores.baseline_rows(rows, score)
        if of:
            row = next(iter(of.values()))
            cells = [scores.percent(of[name]['value']) if name in of else '' for name in scores.BASELINES]
            body.append([score.label, score.metric, *cells, of.get('probe', {}).get('layer', ''),
                         f"{row['train_rows']:,}", f"{row['n']:,}"])
    return ['# Baselines', '', 'In percent (correlations times 100), on the rows that fine-tuning uses. Layer: of the '
            'frozen pretrained model.', '',
            *table(('task', 'metric', *scores.BASELINES.values(), 'layer', 'training rows', 'n'), body)]


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/experiments.py',
                                    'Sets, rows and model; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('data', None, 'Directory that holds the data sets; default config.data.')
    flags.DEFINE_string('out', scores.BASELINES_FILE, 'The JSON file to write; the Markdown table goes beside it.')
    flags.DEFINE_multi_string('task', [], 'Only this set.')


def main() -> None:
    f = flags.FLAGS
    f.config.data = f.data or f.config.data
    run_list.find_models(f.config)
    run_list.check(f.config, pretrained=bool(f.config.pretrained))
    rules.require({'--task': (f.task, run_list.known_tasks(f.config))})
    try:
        rows = run(f.config, f.out, f.task)
    except ImportError as error:
        raise UserError(f"{error}: pip install 'gpt1_jax[baselines]'") from None
    print('\n'.join(lines(rows)) + f'\n{f.out}')


if __name__ == '__main__':
    cli.run(main, _define_flags)

"""Computes baselines for the fine-tuned tables, without fine-tuning.

python -m experiments.baselines --config=configs/overnight_cpu.py --config.pretrained=novels \\
    --data=DATA \\
    --out=runs/paper/baselines.json [--task=stsb]

The baselines are a constant answer, shared words, n-grams, and linear models of the frozen model's
hidden states and log-probabilities. They need scikit-learn (extra `baselines`). They train and
score on the rows that fine-tuning uses with the same config, at most 20,000 of train. A set takes
minutes, nearly all for the frozen model. The frozen model is also run with random weights, to show
the effect of the architecture and the lengths without pretraining. Without --config.pretrained
there is no frozen model.

The program writes FILE, and a Markdown table with the same name. If FILE has rows of the same data,
rows, weights and code of the baselines, they are not computed again. Rows of other weights are
dropped. The other programs read baselines.json in config.out.
"""

import contextlib
import functools
import importlib.util
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict

from experiments.benchmarks import record
from experiments.lib import run_list, side_by_side
from experiments.lib.run_list import Run
from experiments.paper import numbers, scores
from gpt1_jax import cli, rules
from gpt1_jax.cli import config_file
from gpt1_jax.data import splits, tasks
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import load, log_probs, states, task_metrics
from gpt1_jax.models.build import backbone
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import provenance
from gpt1_jax.runs.markdown import table

MOST_ROWS = 20_000  # of training, so that a full set also takes minutes
SCORES = tuple(
    dict.fromkeys(
        [*numbers.TABLE2, *numbers.TABLE3, *numbers.TABLE4, *sum(numbers.GLUE.values(), ())]
    )
)


def run(
    config: ConfigDict,
    out: str | pathlib.Path,
    names: Sequence[str] = (),
    wanted: Sequence[str] = tuple(scores.BASELINES),
    may_start: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Compute baselines, write `out` and its table, and return the sets whose process failed.

    config: configs/experiments.py's. names: the sets, by default the paper's sets whose data
    exists. wanted: names in scores.BASELINES. may_start: called before each set. A row of the file
    is {'task', 'split', 'group', 'baseline', 'metric', 'value' or None if it is undefined, 'n',
    'train_rows', 'inputs' (a digest), 'commit'}. A frozen model adds 'weights' (its digest), and a
    probe also 'layer'.
    """
    out = pathlib.Path(out)
    config = config.copy_and_resolve_references()
    rows = scores.baselines(out)
    weights = None
    if not config.pretrained:
        wanted = [name for name in wanted if name in scores.WITHOUT_MODEL]
        config.pretrained = 'none'
    elif not {*wanted} <= {*scores.WITHOUT_MODEL}:
        pretrained = load.open_pretrained(config.pretrained)
        weights = pretrained.digest(pretrained.step(None))
        rows = [
            row
            for row in rows
            if row['baseline'] in scores.WITHOUT_MODEL or row.get('weights') == weights
        ]
    jobs = []
    for task in names or dict.fromkeys(score.task for score in SCORES):
        tuned = run_list.finetune_runs(config, task, 'full')[0]
        if not run_list.has_train_and_dev(task, tuned.config.data.dir):
            print(f'{task}: no data in {tuned.config.data.dir}', flush=True)
            continue
        inputs = _inputs(tuned)
        rows = [row for row in rows if row['task'] != task or row.get('inputs') == inputs]
        there = {row['baseline'] for row in rows if row['task'] == task}
        if lacking := [name for name in wanted if name not in there]:
            log = out.parent / 'runs' / f'{task}-baselines.log'
            jobs.append(
                side_by_side.Job(
                    f'{task}: {", ".join(lacking)}', of_set, (tuned, lacking, inputs, weights), log
                )
            )
    failed = []
    with contextlib.closing(side_by_side.call(jobs, config, may_start)) as calls:
        for job, found, error, took in calls:
            end = f'failed: {error}: see {job.log}' if error else f'{took:.0f} s'
            print(f'{job.name}: {end}', flush=True)
            failed += [job.name] if error else []
            rows += found or []
            record.write(str(out), {'rows': rows})
    record.write(str(out), {'rows': rows})
    out.with_suffix('.md').write_text('\n'.join(lines(rows)).rstrip() + '\n', encoding='utf-8')
    return failed


def of_set(run: Run, names: Sequence[str], inputs: str, weights: str | None) -> list[dict]:
    """Return the rows of some baselines of a set."""
    models = None if {*names} <= {*scores.WITHOUT_MODEL} else Models(run.config.init_from)
    more = {'inputs': inputs, 'commit': provenance.versions()['commit']}
    rows = []
    for name in names:
        of_model = {} if name in scores.WITHOUT_MODEL else {'weights': weights}
        rows += [row | more | of_model for row in of_task(run, name, models, MOST_ROWS)]
    return rows


def _inputs(run):
    """Return a digest of everything but the weights that decides the rows of a set's baselines:
    files, numbers of rows, this code."""
    data = run.config.data
    task = tasks.get(run.task)
    files = [
        provenance.file_hashes(task.files(data.dir, split))
        for split in sorted({'train', *run.splits})
    ]
    code = provenance.file_hashes(
        [__file__, pathlib.Path(__file__).parent / 'lib' / 'baselines.py']
    )
    return provenance.digest([files, data.train_rows, data.eval_rows, list(code.values())])


@functools.lru_cache(maxsize=3)  # the splits of one set
def read(task: str, directory: str, split: str, limit: int | None) -> list[Example]:
    """Return the examples of a split, at most `limit`."""
    return splits.choose(tasks.get(task).read(directory, split), limit)


def of_task(
    run: Run, name: str, models: 'Models | None', most: int | None = None
) -> Iterator[dict]:
    """Yield the rows of a baseline on the splits that fine-tuning scores. most: the maximum number
    of training rows."""
    from experiments.lib import baselines  # scikit-learn, an extra

    task = tasks.get(run.task)
    data = run.config.data
    train = read(
        run.task, data.dir, 'train', min(filter(None, (data.train_rows, most)), default=None)
    )
    for split in run.splits:
        if split == 'train':
            continue
        rows = read(run.task, data.dir, split, data.eval_rows)
        more = {}
        pretrained = not name.endswith('random')
        if name in ('probe', 'random', 'joined'):
            of_texts = functools.partial(models.states, pretrained=pretrained)
            answers, more['layer'] = baselines.probe(
                task, train, rows, of_texts, joined=name == 'joined'
            )
        elif name not in scores.WITHOUT_MODEL:
            of_texts = functools.partial(models.log_probs, pretrained=pretrained)
            answers = baselines.likelihood(task, train, rows, of_texts)
        else:
            answers = getattr(baselines, name)(task, train, rows)
        if answers is None:
            continue
        for row in task_metrics.rows(
            task, split, [one.id for one in rows], [one.label for one in rows], answers
        ):
            value = row['value']
            print(
                f'{task.name} {split}, {scores.BASELINES[name]}: {row["metric"]} {100 * value:.1f}',
                flush=True,
            )
            yield row | {
                'baseline': name,
                'value': None if math.isnan(value) else round(value, 6),
                'train_rows': len(train),
                **more,
            }


class Models:
    """The frozen models: a pretrained run's model, and the same model with random weights."""

    def __init__(self, origin: str) -> None:
        run = load.open_pretrained(origin)
        self.tokenizer = run.tokenizer()
        self.fields = run.config['model']
        self.mesh = sharding.make_mesh(devices=jax.devices()[:1])
        self.model, params = load.pretrained(run, run.step(None), self.mesh)
        fresh = self.model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
        self.params = {True: params, False: fresh}

    def states(
        self, sequences: Sequence[tuple[str, ...]], pretrained: bool
    ) -> dict[int, np.ndarray]:
        """Return {layer: float32[n, D]}, the hidden states after half of the layers and after all.

        A state is the mean over the last text's tokens. If a text is longer than the context, or
        than half of it for two texts, only its first tokens are read. A text without tokens gives
        zeros.
        """
        ids = [self._lines(texts) if len(texts) > 1 else self._alone(*texts) for texts in sequences]
        found = {}
        params = self.params[pretrained]
        depth = self.model.config.n_layer
        for n in sorted({(depth + 1) // 2, depth}):
            lower = params | {'blocks': jax.tree.map(lambda leaf, n=n: leaf[:n], params['blocks'])}
            model = backbone(self.fields | {'n_layer': n, 'unroll': 0})
            found[n] = states.mean_states(model, lower, self.mesh, ids)
        return found

    def log_probs(self, sequences: Sequence[tuple[str, ...]], pretrained: bool) -> np.ndarray:
        """Return float64[n, 2], the log-probability of the last text and its number of tokens.

        The last text follows a line break, and the text before it if there are two. Texts are cut
        as in `states`.
        """
        ids = [self._lines(texts) for texts in sequences]
        found = np.array([(0.0, n) for _, n in ids])
        found[found[:, 1] > 0, 0], _ = log_probs.last_tokens(
            self.model, self.params[pretrained], self.mesh, [each for each in ids if each[1]]
        )
        return found

    def _lines(self, texts):
        """Return (ids, how many belong to the last text), each text after a line break."""
        room = self.model.config.n_ctx // len(texts)
        lines = [[self.tokenizer.newline_id, *self._encode(text)][:room] for text in texts]
        return sum(lines, []), len(lines[-1]) - 1

    def _alone(self, text):
        ids = self._encode(text)[: self.model.config.n_ctx]
        return ids, len(ids)

    @functools.cache
    def _encode(self, text):
        return self.tokenizer.encode(text)


def lines(rows: Sequence[dict]) -> list[str]:
    names = [name for name in scores.BASELINES if any(row['baseline'] == name for row in rows)]
    body = []
    for score in SCORES:
        of = scores.baseline_rows(rows, score)
        if of:
            row = next(iter(of.values()))
            cells = [scores.percent(of[name]['value']) if name in of else '' for name in names]
            body.append(
                [
                    score.label,
                    score.metric,
                    *cells,
                    of.get('probe', {}).get('layer', ''),
                    f'{row["train_rows"]:,}',
                    f'{row["n"]:,}',
                ]
            )
    return [
        '# Baselines',
        '',
        'In percent (correlations times 100), on the rows that fine-tuning uses. Layer: of the '
        'frozen pretrained model.',
        '',
        *table(
            ('task', 'metric', *map(scores.BASELINES.get, names), 'layer', 'training rows', 'n'),
            body,
        ),
    ]


def need_sklearn() -> None:
    """Raise UserError if scikit-learn, an extra, is not installed."""
    if importlib.util.find_spec('sklearn') is None:
        raise UserError("the baselines need scikit-learn: pip install 'gpt1_jax[baselines]'")


def _define_flags():
    config_file.define(
        'experiments', 'Sets, rows and model; --config.FIELD=VALUE overrides a field.'
    )
    flags.DEFINE_string('data', None, 'Directory that holds the data sets; default config.data.')
    flags.DEFINE_string(
        'out', scores.BASELINES_FILE, 'The JSON file to write; the Markdown table goes beside it.'
    )
    flags.DEFINE_multi_string('task', [], 'Only this set.')


def main() -> None:
    f = flags.FLAGS
    f.config.data = f.data or f.config.data
    run_list.find_models(f.config)
    run_list.check(f.config, pretrained=bool(f.config.pretrained))
    rules.require({'--task': (f.task, run_list.known_tasks(f.config))})
    need_sklearn()
    f.config.processes = 0  # a config's limits are for the machine that fine-tunes
    run(f.config, f.out, f.task)
    print('\n'.join(lines(scores.baselines(f.out))) + f'\n{f.out}')


if __name__ == '__main__':
    cli.run(main, _define_flags)

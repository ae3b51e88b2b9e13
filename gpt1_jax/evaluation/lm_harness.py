"""Runs lm-evaluation-harness (the extra lm-eval) on a pretrained model. Not in the paper.

The harness passes texts, which become tokens as follows:

  no context             A line break: pretraining had no start token and joined documents with line
                         breaks.
  context, continuation  Encoded as one text. The tokens after the context are scored. White space
                         at the end of the context belongs to the continuation. A continuation that
                         only completes the context's last word is encoded by itself.
  more than n_ctx        The context is truncated from the left, with a notice. A rolling text is
                         read in the harness's windows: each token is scored once, and the last
                         window is full.
  letter case            Lost: choices that differ only in case tie.
"""

import itertools
import json
import os
import random
import sys
from collections.abc import Sequence

import datasets
import lm_eval
import numpy as np
from lm_eval import evaluator, utils
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from tqdm import tqdm

from gpt1_jax import storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError, shown
from gpt1_jax.evaluation import load, log_probs, zero_shot_heuristics
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import provenance

UNSUPPORTED = 'tasks that generate text, run generated code or show images are not supported'
RESAMPLES = 1000  # for standard errors (the harness's default of 100,000 takes minutes)


class GPT1(LM):
    """A pretrained model with the interface that the harness calls.

    batch_size: sequences of n_ctx tokens scored at once, or more if they are shorter. The batch
    size and the order of the requests affect answers only through the rounding of float32 sums.
    Equal requests tie.
    """

    def __init__(self, model, params, mesh, tokenizer: Tokenizer, batch_size: int = 8) -> None:
        super().__init__()
        self.model = model
        self.params = params
        self.mesh = mesh
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.n_ctx = model.config.n_ctx

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """[(log P in nats, is_greedy)] of each continuation after its context.

        is_greedy: whether greedy decoding would generate it.
        """
        pairs = [pair(self.tokenizer, *request.args) for request in requests]
        cut = sum(len(context) + len(ids) > self.n_ctx + 1 for context, ids in pairs)
        _print_notice(cut, len(pairs), self.n_ctx)
        return self._score(pairs)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """[log P in nats of a whole text], with 0 for a blank text."""
        texts = [request.args[0] for request in requests]
        pairs = [([self.tokenizer.newline_id], self.tokenizer.encode(text)) for text in texts]
        return [nats for nats, _ in self._score(pairs)]

    def _score(self, pairs):
        """[(sum of log P, greedy)] of each (context, ids), over all its windows."""
        sequences = [windows(context, ids, self.n_ctx) for context, ids in pairs]
        logs, best = log_probs.last_tokens(
            self.model,
            self.params,
            self.mesh,
            list(itertools.chain(*sequences)),
            self.batch_size * self.n_ctx,
            tqdm,
        )
        ends = np.cumsum([len(of_pair) for of_pair in sequences])[:-1]
        return [
            (float(nats.sum()), bool(greedy.all()))
            for nats, greedy in zip(np.split(logs, ends), np.split(best, ends))
        ]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise UserError(UNSUPPORTED)


def pair(tokenizer: Tokenizer, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """(ids of a context, never empty, ids of the continuation to score).

    UserError if the continuation has no tokens.
    """
    whole = tokenizer.encode(context + continuation)
    end = zero_shot_heuristics.end_of_prefix(whole, context, tokenizer)
    before = whole[:end]
    after = whole[end:]
    if not after:
        before = tokenizer.encode(context)
        after = tokenizer.encode(continuation)
    if not after:
        raise UserError(
            f'nothing to score: {shown(continuation)} after {shown(context[-100:])} has no token'
        )
    return before or [tokenizer.newline_id], after


def windows(context: list[int], ids: list[int], n_ctx: int) -> list[tuple[list[int], int]]:
    """[(ids, n)] for log_probs.last_tokens.

    One window with as much of the context as fits, or the harness's rolling windows if the ids are
    too many even without a context.
    """
    if 0 < len(ids) <= n_ctx:
        return [((context + ids)[-n_ctx - 1 :], len(ids))]
    rolling = map(
        utils.make_disjoint_window, utils.get_rolling_token_windows(ids, context[-1], n_ctx, 1)
    )
    return [(before + scored, len(scored)) for before, scored in rolling]


def evaluate(
    init_from: storage.Path,
    tasks: Sequence[str],
    include_path: storage.Path | None = None,
    limit: float | None = None,
    num_fewshot: int | None = None,
    batch_size: int = 8,
    step: int | None = None,
) -> tuple[dict, list[dict]]:
    """Evaluates a pretrained run on tasks of the harness: (results, samples), as JSON values.

    tasks: names of tasks, groups or tags.
    include_path: a directory of YAML files with further tasks.
    limit: the number of items of each task, or below 1 a fraction of them.
    num_fewshot: replaces the tasks' number, unless that is 0.
    results: the harness's results, with the run, the step, the digest of its parameters and all
        versions.
    samples: a dict per item, with its requests and the model's answers.

    UserError for a mistake in any argument, or a task that cannot be loaded.
    """
    if limit is not None and not limit > 0:
        raise UserError(f'limit is {limit}, must be above 0')
    run = load.open_pretrained(init_from)
    step = run.step(step)
    tokenizer = run.tokenizer()
    mesh = sharding.make_mesh()
    loaded = load_tasks(tasks, include_path, num_fewshot)
    model, params = load.pretrained(run, step, mesh)
    # The bootstrap would fork, which is unsafe with JAX's threads
    os.environ['DISABLE_MULTIPROC'] = '1'
    found = evaluator.evaluate(
        GPT1(model, params, mesh, tokenizer, batch_size),
        loaded,
        limit=limit,
        bootstrap_iters=RESAMPLES,
    )
    versions = provenance.versions()
    versions['versions']['lm_eval'] = lm_eval.__version__
    found |= {
        'run': str(run.path),
        'step': step,
        'limit': limit,
        'digest': run.digest(step),
        'provenance': versions,
    }
    found = json.loads(json.dumps(found, default=utils.handle_non_serializable))
    samples = found.pop('samples')
    return found, [{'task': task} | sample for task in samples for sample in samples[task]]


def load_tasks(
    names: Sequence[str], include_path: storage.Path | None = None, num_fewshot: int | None = None
) -> dict:
    """Loads the harness's tasks of these names, with their data sets.

    UserError for a task that is unknown or cannot be loaded.
    """
    if include_path is not None and not include_path.is_dir():
        raise UserError(f'{include_path}: not a directory of tasks')
    further = None if include_path is None else str(include_path)
    manager = TaskManager(include_path=further, include_defaults=False)
    if not set(names) <= set(manager.all_subtasks):
        manager = TaskManager(include_path=further)  # half a minute: it reads 14,000 files
    unknown = [shown(name) for name in names if name not in manager.all_tasks]
    if unknown or not names:
        raise UserError(
            f'unknown task {", ".join(unknown) or "(none given)"}: "python -m lm_eval ls tasks" '
            'lists the '
            "harness's tasks; those of --include_path need a readable YAML file"
        )
    # Otherwise reading any data set, even from local files, reports to a server.
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
    random.seed(0)  # like the harness's own command, for tasks that draw at random
    np.random.seed(1234)
    try:
        loaded = manager.load(list(names))
    except Exception as error:  # a YAML file and a data set's loader may raise anything
        raise UserError(
            f'{", ".join(names)}: cannot be loaded ({type(error).__name__}: {error})'
        ) from None
    for name, task in loaded['tasks'].items():
        unsafe = getattr(task, 'UNSAFE_CODE', False) or getattr(task, 'MULTIMODAL', False)
        if unsafe or task.OUTPUT_TYPE == 'generate_until':
            raise UserError(f'{name}: {UNSUPPORTED}')
        if task.get_config('num_fewshot') != 0 and num_fewshot is not None:
            task.set_config('num_fewshot', num_fewshot)
        elif task.get_config('num_fewshot') is None:
            task.set_config('num_fewshot', 0)
        task.set_fewshot_seed(1234)
    return loaded


def table(found: dict) -> str:
    """Formats the results as the harness does."""
    return '\n'.join(
        utils.make_table(found, column) for column in ('results', 'groups') if found.get(column)
    )


def _print_notice(cut, n, n_ctx):
    if cut:
        print(
            f'notice: {cut:,} of {n:,} requests exceed the context of {n_ctx:,} tokens: their '
            'contexts are truncated from the left',
            file=sys.stderr,
            flush=True,
        )

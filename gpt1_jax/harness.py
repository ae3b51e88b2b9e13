"""lm-evaluation-harness on a pretrained model: its three kinds of requests, and its tasks. Not in the paper.

The harness (the extra lm-eval) hands over texts; what they become here:

  no context             Pretraining had no start token: documents are laid end to end, a line break after each. So a
                         line break stands before a text that has nothing before it.
  context, continuation  Encoded as one text, as heuristics.pronoun is; what comes after the context's tokens is scored.
                         White space at the context's end, a line break too, is the continuation's. One that only
                         completes the context's last word is encoded by itself.
  more than n_ctx        The context loses its beginning, which a notice tells. A rolling text is read in the harness's
                         own windows: each token is scored once, the last window is full.
  a text to go on from   Loses its beginning where max_gen_toks would not fit, but keeps n_ctx / 2: see sampling.py.
  stop strings           generation.py's. There is no token that ends a text.

All text is that of the vocabulary, lower case with punctuation set off: choices that differ in case alone score alike,
and an answer is compared with 'paris .', not with 'Paris.'.
"""
import collections
import itertools
import json
import os
import pathlib
import random
import sys

import datasets
import lm_eval
import numpy as np
from lm_eval import evaluator, utils
from lm_eval.api.model import LM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.tasks import TaskManager
from tqdm import tqdm

from gpt1_jax import checkpoint, generation, heuristics, results, scoring, sharding
from gpt1_jax.errors import UserError, shown
from gpt1_jax.sampling import Sampling

RESAMPLES = 1000  # for the standard errors that are bootstrapped; the harness's own 100,000 take minutes in one process


class GPT1(LM):
    """A pretrained model, as the harness asks it.

    batch_size: sequences of n_ctx tokens scored at once (of shorter ones more), and texts generated at once. No answer
    depends on it, nor on the order of the requests.
    """

    def __init__(self, model, params, mesh, tokenizer, batch_size=8):
        super().__init__()
        self.model, self.params, self.mesh, self.tokenizer = model, params, mesh, tokenizer
        self.batch_size, self.n_ctx = batch_size, model.config.n_ctx

    def loglikelihood(self, requests):
        """[(log P in nats of the continuation after the context, whether greedy decoding writes it)]."""
        pairs = [pair(self.tokenizer, *request.args) for request in requests]
        _tell(sum(len(context) + len(ids) > self.n_ctx + 1 for context, ids in pairs), len(pairs), self.n_ctx)
        return self._score(pairs)

    def loglikelihood_rolling(self, requests):
        """[log P in nats of a whole text]; of a blank one 0."""
        texts = [self.tokenizer.encode(text) for text, in (request.args for request in requests)]
        return [nats for nats, _ in self._score([([self.tokenizer.newline_id], ids) for ids in texts])]

    def _score(self, pairs):
        read = [(window, i) for i, (context, ids) in enumerate(pairs) for window in windows(context, ids, self.n_ctx)]
        # By length, and one context's continuations together: scoring reads their context once.
        read.sort(key=lambda one: (len(one[0][0]) - one[0][1], one[0]))
        sums, greedy = np.zeros(len(pairs)), np.ones(len(pairs), bool)
        at_once = 64 * self.batch_size  # for the sake of the progress bar
        for first in tqdm(range(0, len(read), at_once)):
            sequences, rows = zip(*read[first:first + at_once])
            found = scoring.last_tokens(self.model, self.params, self.mesh, sequences, self.batch_size * self.n_ctx)
            for i, nats, best in zip(rows, *found):
                sums[i] += nats
                greedy[i] &= best
        return list(zip(sums.tolist(), greedy.tolist()))

    def generate_until(self, requests):
        """[the text after each context]. Of a context that is asked for several times, as many samples."""
        asked = [(json.dumps(arguments, sort_keys=True), context)
                 for context, arguments in (request.args for request in requests)]
        times, found, long = collections.Counter(asked), {}, 0
        ids = {context: self.tokenizer.encode(context) or [self.tokenizer.newline_id] for _, context in times}
        order = sorted(times, key=lambda one: (one[0], times[one], len(ids[one[1]])))
        bar = tqdm(total=len(asked))
        for (arguments, samples), alike in itertools.groupby(order, key=lambda one: (one[0], times[one])):
            tokens, how, stop = options(json.loads(arguments), self.n_ctx)
            room = max(self.n_ctx - tokens, self.n_ctx // 2, 1)
            alike = list(alike)
            long += samples * sum(len(ids[context]) > room for _, context in alike)
            size = max(1, self.batch_size // samples)
            for first in range(0, len(alike), size):
                batch = alike[first:first + size]
                texts = generation.generate(self.model, self.params, self.mesh, self.tokenizer,
                                            [ids[context][-room:] for _, context in batch], tokens, how, samples, stop)
                found |= zip(batch, map(iter, texts))
                bar.update(len(batch) * samples)
        bar.close()
        _tell(long, len(asked), self.n_ctx)
        return [next(found[one]).text for one in asked]


def pair(tokenizer, context, continuation):
    """(ids, ids) of a context, never empty, and of the continuation that is scored. UserError where that has no
    token."""
    whole = tokenizer.encode(context + continuation)
    end = heuristics.end_of_prefix(whole, context, tokenizer)
    before, after = whole[:end], whole[end:]
    if not after:
        before, after = tokenizer.encode(context), tokenizer.encode(continuation)
    if not after:
        raise UserError(f'nothing to score: {shown(continuation)} after {shown(context[-100:])} has no token')
    return before or [tokenizer.newline_id], after


def windows(context, ids, n_ctx):
    """[(ids, n)], each for scoring.last_tokens: what is read to score all the ids after a context.

    One, with as much of the context as fits, or where the ids alone are too many the harness's rolling windows.
    """
    if 0 < len(ids) <= n_ctx:
        return [((context + ids)[-n_ctx - 1:], len(ids))]
    rolling = map(utils.make_disjoint_window, utils.get_rolling_token_windows(ids, context[-1], n_ctx, 1))
    return [(before + scored, len(scored)) for before, scored in rolling]


def options(arguments, n_ctx):
    """(tokens at most, Sampling, stop strings) of a task's generation_kwargs. UserError for what there is not here."""
    found = normalize_gen_kwargs(arguments, n_ctx // 2)
    tokens, stop, sampled = found.pop('max_gen_toks'), found.pop('until'), found.pop('do_sample')
    temperature = found.pop('temperature', 1.0)
    how = Sampling(temperature if sampled else 0.0, found.pop('top_k', 0), found.pop('top_p', 1.0))
    if found.pop('num_beams', 1) != 1 or found:
        raise UserError(f'generation_kwargs {shown(arguments)}: of these there are until, max_gen_toks, do_sample, '
                        'temperature, top_k and top_p')
    return tokens, how, list(filter(None, stop))


def evaluate(init_from, tasks, include_path=None, limit=None, num_fewshot=None, batch_size=8, step=None):
    """The harness's results of a pretrained run on tasks: (results, samples), both fit for JSON.

    tasks:   names of tasks, groups or tags. include_path: a directory of YAML files with tasks of one's own.
    limit:   so many items of each task; below 1 a share of them. num_fewshot: instead of the tasks' own number, but
             where that is 0.
    results: the harness's, with the run, the step, the digest of its parameters and all versions. samples: a dict an
             item, its requests and the model's answers.
    UserError for a mistake in any of these, or a task that cannot be loaded.
    """
    if limit is not None and not limit > 0:
        raise UserError(f'limit is {limit}, must be above 0')
    run = scoring.open_pretrained(init_from)
    step, tokenizer, mesh = run.step(step), run.tokenizer(), sharding.make_mesh()
    loaded = load_tasks(tasks, include_path, num_fewshot)
    model, params = scoring.restore(run, step, mesh)
    os.environ['DISABLE_MULTIPROC'] = '1'  # the bootstrap would fork, which JAX's threads may not survive
    found = evaluator.evaluate(GPT1(model, params, mesh, tokenizer, batch_size), loaded, limit=limit,
                               bootstrap_iters=RESAMPLES)
    versions = results.versions()
    versions['versions']['lm_eval'] = lm_eval.__version__
    found |= {'run': str(run.path), 'step': step, 'limit': limit,
              'digest': checkpoint.params_digest(checkpoint.read_meta(run.checkpoints, step)), 'provenance': versions}
    found = json.loads(json.dumps(found, default=utils.handle_non_serializable))
    samples = found.pop('samples')
    return found, [{'task': task} | sample for task in samples for sample in samples[task]]


def load_tasks(names, include_path=None, num_fewshot=None):
    """The harness's tasks of these names, their data sets read. UserError for an unknown name, or a task that cannot
    be."""
    if include_path is not None and not pathlib.Path(include_path).is_dir():
        raise UserError(f'{include_path}: no directory of tasks')
    manager = TaskManager(include_path=include_path, include_defaults=False)
    if not set(names) <= set(manager.all_subtasks):
        manager = TaskManager(include_path=include_path)  # half a minute: it reads 14,000 files
    unknown = [name for name in names if name not in manager.all_tasks]
    if unknown or not names:
        raise UserError(f'no task {", ".join(map(shown, unknown)) or "is named"}: "python -m lm_eval ls tasks" lists '
                        "the harness's; those of --include_path need a YAML file that can be read")
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # else every set that is read, local files too, tells a server
    random.seed(0)  # as the harness's own command does, for what a task draws
    np.random.seed(1234)
    try:
        loaded = manager.load(list(names))
    except Exception as error:  # whatever a YAML file or the loader of a data set makes of it
        raise UserError(f'{", ".join(names)}: cannot be loaded ({type(error).__name__}: {error})') from None
    for name, task in loaded['tasks'].items():
        if getattr(task, 'UNSAFE_CODE', False) or getattr(task, 'MULTIMODAL', False):
            raise UserError(f'{name}: runs generated code, or shows pictures, which there is not here')
        if task.get_config('num_fewshot') != 0 and num_fewshot is not None:
            task.set_config('num_fewshot', num_fewshot)
        elif task.get_config('num_fewshot') is None:
            task.set_config('num_fewshot', 0)
        task.set_fewshot_seed(1234)
    return loaded


def table(found):
    """Results as the harness prints them."""
    return '\n'.join(utils.make_table(found, column) for column in ('results', 'groups') if found.get(column))


def _tell(cut, n, n_ctx):
    if cut:
        print(f'notice: {cut:,} of {n:,} requests do not fit the context of {n_ctx:,} tokens: the beginning of what '
              'comes before is left out', file=sys.stderr, flush=True)

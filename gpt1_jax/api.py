"""The Python interface: pretrains, fine-tunes, and loads a run to score, generate, embed and
classify text with it.

>>> import gpt1_jax
>>> gpt1 = gpt1_jax.load('runs/gpt1')
>>> gpt1
Trained(path='runs/gpt1', kind='pretrain', step=60)
>>> gpt1.generate('The cat', tokens=5, temperature=0)
['sat on a mat.']

A mistake raises gpt1_jax.UserError, whose message is one line, also in a notebook. Each method
names the file whose functions take the same model, params and tokenizer and have more options.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from gpt1_jax import finetuning, pretraining, user_code
from gpt1_jax.cli import config_file, own_data
from gpt1_jax.data import splits
from gpt1_jax.data.detokenize import continued, readable
from gpt1_jax.data.tasks import own, unlabelled
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import TYPED, UserError, os_errors_in_one_line, shown
from gpt1_jax.evaluation import fine_tuned, log_probs, states, text_generation
from gpt1_jax.evaluation import load as run_loading
from gpt1_jax.evaluation.decoding import Sampling
from gpt1_jax.parallel import sharding
from gpt1_jax.runs import workdir as run_directory
from gpt1_jax.weights import from_hub


class Scored(NamedTuple):
    """The texts of n tokens, and the log-probability of all but the first, float64[n - 1], in nats.

    A piece that ends a word ends in a space.
    """

    pieces: list[str]
    log_probabilities: np.ndarray


class Attention(NamedTuple):
    """The texts of L tokens, and their maps, float32[N, H, L, L]. See evaluation/states.py."""

    pieces: list[str]
    maps: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """A run at one saved step, as `load` returns it.

    kind:   'pretrain' or 'finetune'.
    config: the run's config.json.
    model:  a backbone (gpt.GPT or lstm.LSTM), or for a fine-tuned run a heads.TaskModel.
            model.apply({'params': params}, ...) runs it.
    mesh:   the devices of params.
    fitted: for a fine-tuned run, the argument of fine_tuned.predict.

    `embed`, `attention` and `classify` take rows. For a pretrained model, rows are texts. For a
    fine-tuned run, they are its task's inputs: a text, or a pair of texts, such as premise and
    hypothesis. For multiple choice a row is {'texts': [...], 'choices': [...]}. If the task is your
    table, rows may be a DataFrame, or {column: value} each.
    """

    path: str
    kind: str
    step: int
    config: dict = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)
    params: Any = dataclasses.field(repr=False)
    tokenizer: Tokenizer = dataclasses.field(repr=False)
    mesh: jax.sharding.Mesh = dataclasses.field(repr=False)
    fitted: run_loading.FineTuned | None = dataclasses.field(repr=False)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens. (data/tokenizer.py)

        >>> gpt1.encode('The CAT sat.')
        [269, 266, 268, 260]
        >>> gpt1.tokenizer.decode(_)
        'the cat sat .'
        """
        if not isinstance(text, str):
            raise UserError(f'{shown(text)} is not a text')
        return self.tokenizer.encode(text)

    def embed(self, rows: Sequence) -> np.ndarray:
        """The last block's hidden state at the last token of each text, float32[n, D].

        A text longer than the context is truncated from the left. For a fine-tuned run the result
        is the classifier's input: the state at the extract token, and for similarity the sum over
        both orders. For multiple choice it is [n, K, D], with zeros for choices that a row does not
        have. (evaluation/states.py)

        >>> gpt1.embed(['The cat sat on a mat.', 'The cat']).shape
        (2, 16)
        """
        sequences = self._sequences(rows)
        backbone, params = self._backbone()
        found = states.mean_states(
            backbone, params, self.mesh, [(ids, 1) for row in sequences for ids in row]
        )
        K = np.array([len(row) for row in sequences])
        by_row = np.zeros((len(K), K.max(), found.shape[1]), np.float32)
        by_row[np.arange(K.max()) < K[:, None]] = found
        if self.fitted is not None and self.fitted.task.head == 'choice':
            return by_row
        return by_row.sum(axis=1)

    def score(self, text: str) -> Scored:
        """A pretrained model's log-probability of each token of a text, given the tokens before.

        A text longer than the context is scored in disjoint windows. (evaluation/log_probs.py, and
        for files perplexity.py)

        >>> pieces, logs = gpt1.score('The cat sat on a mat.')
        >>> pieces
        ['the ', 'cat ', 'sat ', 'on ', 'a ', 'mat ', '. ']
        >>> logs.shape
        (6,)
        >>> worse = gpt1.score('The mat sat on a cat.').log_probabilities
        >>> bool(logs.sum() > worse.sum() + 5)
        True
        """
        ids = np.array(self._pretrained().encode(text), np.int32)
        if len(ids) < 2:
            raise UserError(
                f'the text has {len(ids)} token(s), needs at least two: one to score and one '
                'before it'
            )
        logs = log_probs.by_token(
            self.model, self.params, self.mesh, ids, tokens_per_batch=min(4096, len(ids))
        )
        return Scored(self._pieces(ids), logs)

    def generate(
        self,
        prompt: str,
        tokens: int = 100,
        samples: int = 1,
        stop: str | Sequence[str] | None = (),
        temperature: float = Sampling.temperature,
        top_k: int = Sampling.top_k,
        top_p: float = Sampling.top_p,
        seed: int = Sampling.seed,
    ) -> list[str]:
        """Continues a prompt `samples` times with a pretrained model, in lower case.

        Spaces are as people write them. text_generation.generate gives ids, and text as the
        vocabulary writes it. temperature, top_k, top_p, seed: see evaluation/decoding.Sampling.
        Equal arguments give equal texts. (evaluation/text_generation.py)

        >>> gpt1.generate('The cat', samples=2, stop=['mat'], top_k=1)
        ['sat on a', 'sat on a']
        """
        ids = self._pretrained().encode(prompt)
        how = Sampling(temperature, top_k, top_p, seed)
        found = text_generation.generate(
            self.model, self.params, self.mesh, self.tokenizer, ids, samples, tokens, how, stop
        )
        # The prompt's quotation marks decide which quotation marks of the continuation close
        start = self.tokenizer.decode(ids)
        return [
            continued(start, each.text)[len(readable(start)) :].removeprefix(' ') for each in found
        ]

    def classify(self, rows: Sequence) -> list[dict]:
        """The label or score of each row, with probabilities, from a fine-tuned run.

        (evaluation/fine_tuned.py)

        >>> tuned = gpt1_jax.load('runs/tuned')
        >>> tuned.classify(['The cat sat on a mat.'])
        [{'id': '0', 'label': '0', 'probabilities': {'0': 0.78..., '1': 0.21...}}]
        """
        if self.fitted is None:
            raise UserError(f'{self.path}: is a pretrained run; labels need a fine-tuned one')
        return fine_tuned.predict(self.fitted, unlabelled.given(self.fitted.task, rows))

    def attention(self, row: Any) -> Attention:
        """The attention probabilities of each head of each layer over a text or a row.

        If a row has several sequences (two orders, or choices), the first is used. A text longer
        than the context is truncated from the left. (evaluation/states.py)

        >>> pieces, maps = gpt1.attention('The cat sat.')
        >>> pieces, maps.shape
        (['the ', 'cat ', 'sat ', '. '], (2, 4, 4, 4))
        """
        ids = self._sequences([row])[0][0]
        backbone, params = self._backbone()
        maps = np.asarray(states.attention_maps(backbone, params, np.array([ids])))
        return Attention(self._pieces(ids), maps[:, 0])

    def _sequences(self, rows):
        """Each row as K lists of ids."""
        if self.fitted is not None:
            task = self.fitted.task
            n_ctx = self.fitted.n_ctx
            examples = unlabelled.given(task, rows)
            encoded = splits.encode_all(examples, task, self.tokenizer, n_ctx)
            return [list(map(list, row.sequences)) for row in encoded]
        unlabelled.check(rows, 'texts')
        encoded = [self.encode(text) for text in rows]
        if not encoded:
            raise UserError('no texts')
        if [] in encoded:
            raise UserError(f'text {encoded.index([])} is empty')
        return [[ids[-self.model.config.n_ctx :]] for ids in encoded]

    def _backbone(self):
        """The model without the task's head, and its parameters."""
        if self.fitted is None:
            return self.model, self.params
        return self.model.backbone, self.params['backbone']

    def _pieces(self, ids):
        return [self.tokenizer.piece(int(token)) for token in ids]

    def _pretrained(self) -> 'Trained':
        if self.fitted is not None:
            raise UserError(
                f'{self.path}: is a fine-tuned run; scoring and generating text need a pretrained '
                'one'
            )
        return self


@os_errors_in_one_line()
def pretrain(
    corpus: Any,
    workdir: str | os.PathLike,
    init_from: str | None = None,
    minutes: float | None = None,
    config: str | ConfigDict = 'pretrain',
    fields: Mapping[str, Any] | None = None,
) -> Trained:
    """Pretrain on a corpus, as `gpt1 pretrain` does. Call it again to resume.

    Returns the Trained run, as `load` does.
    corpus:    files, directories or globs of text, JSON lines or Parquet, 'novels', or a DataFrame
               with a column `text`.
    workdir:   the directory of the run.
    init_from: begin with the weights, sizes, dropout and vocabulary of this run.
    minutes:   train for about so many minutes, instead of epochs.
    config:    a packaged name (`gpt1 pretrain --help`), a file or a ConfigDict.
    fields:    fields of the config, such as {'batch.size': 8}.
    UserError with the text of the program's error lines.

        gpt1 = gpt1_jax.pretrain('books', 'runs/books', init_from='novels', minutes=60)
    """
    if isinstance(config, str):
        config = config_file.load(config)
    if own.is_frame(corpus):
        corpus = own.saved(corpus)
    config = config_file.with_fields(config, {'data.corpus': corpus} | dict(fields or {}))
    if init_from is not None:
        config = pretraining.begin_from(config, init_from, fields or {})
    pretraining.run(config, os.fspath(workdir), minutes=minutes)
    return load(workdir)


@os_errors_in_one_line()
def finetune(
    data: Any,
    workdir: str | os.PathLike,
    text: str | Sequence[str] = (),
    label: str | None = None,
    choices: str | Sequence[str] = (),
    score: Sequence[float] = (),
    task: str | None = None,
    init_from: str | None = 'novels',
    encoding: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Trained:
    """Fine-tune on labelled rows, as `gpt1 finetune` does. Call it again to resume.

    Returns the Trained run, as `load` does.
    data:      a DataFrame, a .csv, .tsv, .jsonl, .json or .parquet file, or a directory of them.
               With `task`, the directory of the task's files.
    workdir:   the directory of the run.
    text:      the column of the text, or two columns for a pair.
    label:     the column of the label.
    choices, score: as the flags of `gpt1 finetune --help`.
    task:      the name of one of the paper's data sets, or FILE:NAME.
    init_from: the pretrained run.
    encoding:  of tables that are not UTF-8, such as 'latin-1'.
    fields:    fields of the config, such as {'train.epochs': 5}.
    UserError with the text of the program's error lines.

        stars = gpt1_jax.finetune('reviews.csv', 'runs/stars', text='review', label='stars')
    """
    if bool(text and label) == bool(task):
        raise UserError('give text and label, the columns of your rows, or task')
    if own.is_frame(data):
        data = own.saved(data)
        TYPED[data] = 'the DataFrame'
    if not isinstance(data, (str, os.PathLike)):
        raise UserError(f'data is {shown(data)}, must be a path or a DataFrame')
    data = os.fspath(data)
    if task is None:
        columns, answers = ([x] if isinstance(x, str) else list(x) for x in (text, choices))
        given = (data, columns, label, answers, list(score), encoding)
        config = own_data.fill(
            config_file.load('custom'), dict(zip(own_data.NAMES, given)) | {'init_from': init_from}
        )
    else:
        config = config_file.load(f'finetune:{task}')
        config.data.dir = data
        config.init_from = init_from
    finetuning.run(config_file.with_fields(config, fields or {}), os.fspath(workdir))
    return load(workdir)


@os_errors_in_one_line()
def load(path: str | os.PathLike, step: int | None = None, trust_code: bool = False) -> Trained:
    """Loads a run at a saved step.

    path:       the run's directory, also in an object store (gs://BUCKET/...), a Hugging Face
                directory, or a model's name, such as 'novels' or 'openai-community/openai-gpt'
                (extra `hub`, see weights/from_hub.py).
    step:       by default a pretrained run's latest step, or a fine-tuned run's best step on dev.
    trust_code: run the code (FILE:NAME) that the run's config.json names. Read the code first.
    UserError naming the path, the step or the file if there is no such run, if it is damaged, or if
    it names code that is not trusted.

    >>> gpt1_jax.load('runs/gpt1', step=30).step
    30
    >>> gpt1_jax.load('runs/gpt2')
    Traceback (most recent call last):
    gpt1_jax.errors.UserError: runs/gpt2: not a run directory (no config.json in it)
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f'path is {shown(path)}, must be a text or a path')
    directory = from_hub.local_run(path)
    if trust_code:
        user_code.trust(run_directory.read_config(directory))
    run = run_directory.load(directory)
    kind = run.config['kind']
    step = run.step(step)
    tokenizer = run.tokenizer()
    tuned = None
    if kind == 'finetune':
        tuned = run_loading.fine_tuned(run, step)
        mesh = tuned.mesh
        model = tuned.model
        params = tuned.params
    else:
        mesh = sharding.make_mesh()
        model, params = run_loading.pretrained(run, step, mesh)
    return Trained(str(run.path), kind, step, run.config, model, params, tokenizer, mesh, tuned)

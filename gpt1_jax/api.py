"""A run as a notebook or a program wants it: its model, parameters and tokenizer, and what they say of texts.

>>> import gpt1_jax
>>> gpt1 = gpt1_jax.load('runs/gpt1')
>>> gpt1
Trained(path='runs/gpt1', kind='pretrain', step=60)
>>> gpt1.generate('The cat', tokens=5, temperature=0)
['sat on a mat .']

A mistake is a gpt1_jax.errors.UserError, one line also in a notebook. Everything here is done by other files, named
beside it: they take the same model, params and tokenizer, and have more to choose.
"""
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpt1_jax import embedding, generation, prediction, scoring, sharding, workdir
from gpt1_jax.attention_maps import attention_maps
from gpt1_jax.data import inputs
from gpt1_jax.data.tasks import unlabelled
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.sampling import Sampling


class Scored(NamedTuple):
    """A text's tokens, n of them, and the log-probability of each but the first, float64[n - 1], in nats.

    A piece ends in a space where it ends a word.
    """
    pieces: list[str]
    log_probabilities: np.ndarray


class Attention(NamedTuple):
    """A text's tokens, L of them, and maps float32[N, H, L, L]: see attention_maps.attention_maps."""
    pieces: list[str]
    maps: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """A run at one saved step; `load` makes it.

    kind: 'pretrain' or 'finetune'. config: the run's config.json. model: a backbone (model.GPT or lstm.LSTM), of a
    fine-tuned run a heads.TaskModel; model.apply({'params': params}, ...) runs it. mesh: the devices of params. fitted:
    of a fine-tuned run, what prediction.predict takes.

    Rows, in `embed`, `attention` and `classify`, are texts. Of a fine-tuned run they are what its task reads: a text;
    a pair of texts, such as premise and hypothesis; or of multiple choice {'texts': [...], 'choices': [...]}.
    """
    path: str
    kind: str
    step: int
    config: dict = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)
    params: Any = dataclasses.field(repr=False)
    tokenizer: Tokenizer = dataclasses.field(repr=False)
    mesh: jax.sharding.Mesh = dataclasses.field(repr=False)
    fitted: prediction.Fitted | None = dataclasses.field(repr=False)

    def encode(self, text: str) -> list[int]:
        """A text's ids, without start or extract (data/tokenizer.py).

        >>> import gpt1_jax
        >>> gpt1 = gpt1_jax.load('runs/gpt1')
        >>> gpt1.encode('The CAT sat.')
        [269, 266, 268, 260]
        >>> gpt1.tokenizer.decode(_)
        'the cat sat .'
        """
        return self.tokenizer.encode(text)

    def embed(self, rows: Sequence) -> np.ndarray:
        """float32[n, D]: the last block's state at the last token of each text, of which as many tokens count as the
        context holds. Of a fine-tuned run at the extract token, the sum of both orders for similarity: what the
        classifier reads; of multiple choice [n, K, D], 0 where a row has less choices than another. (embedding.py)

        >>> import gpt1_jax
        >>> gpt1_jax.load('runs/gpt1').embed(['The cat sat on a mat.', 'The cat']).shape
        (2, 16)
        """
        sequences = self._sequences(rows)
        backbone, params = self._backbone()
        states = embedding.last_states(backbone, params, self.mesh, sum(sequences, []))
        many = self.fitted is not None and self.fitted.task.head == 'choice'
        found = np.zeros((len(sequences), max(map(len, sequences)), states.shape[1]), np.float32)
        for row, own in zip(found, np.split(states, np.cumsum([len(s) for s in sequences])[:-1])):
            row[:len(own)] = own
        return found if many else found.sum(axis=1)

    def score(self, text: str) -> Scored:
        """How probable a pretrained model finds each token of a text after those before it. Of a text longer than the
        context, windows of it stand for themselves. (scoring.py; perplexity.py for files)

        >>> import gpt1_jax
        >>> gpt1 = gpt1_jax.load('runs/gpt1')
        >>> pieces, known = gpt1.score('The cat sat on a mat.')
        >>> pieces
        ['the ', 'cat ', 'sat ', 'on ', 'a ', 'mat ', '. ']
        >>> known.shape, bool(known.sum() > gpt1.score('The mat sat on a cat.').log_probabilities.sum() + 5)
        ((6,), True)
        """
        ids = np.array(self._pretrained().encode(text), np.int32)
        if len(ids) < 2:
            raise UserError(f'the text has {len(ids)} token(s): one to score and one before it are needed')
        logs = scoring.by_token(self.model, self.params, self.mesh, ids, tokens_per_batch=min(4096, len(ids)))
        return Scored(self._pieces(ids), logs)

    def generate(self, prompt: str, tokens: int = 100, samples: int = 1, stop: Sequence[str] = (), **how) -> list[str]:
        """What a pretrained model writes after a prompt, `samples` times, in the vocabulary's lower case. how:
        temperature, top_k, top_p, seed (sampling.Sampling). The same arguments give the same texts. (generation.py)

        >>> import gpt1_jax
        >>> gpt1_jax.load('runs/gpt1').generate('The cat', samples=2, stop=['mat'], top_k=1)
        ['sat on a', 'sat on a']
        """
        found = generation.generate(self._pretrained().model, self.params, self.mesh, self.tokenizer, [prompt], tokens,
                                    Sampling(**how), samples, stop)
        return [one.text for one in found[0]]

    def classify(self, rows: Sequence) -> list[dict]:
        """What a fine-tuned run says of each row: its label, or score, and the probabilities. (prediction.py)

        >>> import gpt1_jax
        >>> tuned = gpt1_jax.load('runs/tuned')
        >>> tuned.classify(['The cat sat on a mat.'])
        [{'id': '0', 'label': '0', 'probabilities': {'0': 0.78..., '1': 0.21...}}]
        """
        return prediction.predict(self._finetuned(), unlabelled.given(self.fitted.task, rows))

    def attention(self, row) -> Attention:
        """Where each head of each layer looks in a text or a row: of two orders in the first, of several choices in the
        first one; of a longer text than the context the end. (attention_maps.py)

        >>> import gpt1_jax
        >>> pieces, maps = gpt1_jax.load('runs/gpt1').attention('The cat sat.')
        >>> pieces, maps.shape
        (['the ', 'cat ', 'sat ', '. '], (2, 4, 4, 4))
        """
        ids = self._sequences([row])[0][0]
        return Attention(self._pieces(ids), np.asarray(attention_maps(*self._backbone(), np.array([ids])))[:, 0])

    def _sequences(self, rows):
        """Each row as K lists of ids."""
        if self.fitted is not None:
            task, n_ctx = self.fitted.task, self.fitted.n_ctx
            examples = unlabelled.given(task, rows)
            return [row.sequences for row in inputs.encode_all(examples, task, self.tokenizer, n_ctx)]
        if isinstance(rows, str):
            raise UserError('one text where several are expected: give a list of texts')
        found = [self.encode(text)[-self.model.config.n_ctx:] for text in rows]
        if [] in found or not found:
            raise UserError(f'text {found.index([])} is empty' if found else 'no texts')
        return [[ids] for ids in found]

    def _backbone(self):
        if self.fitted is None:
            return self.model, self.params
        return self.model.backbone, self.params['backbone']

    def _pieces(self, ids):
        return [self.tokenizer.piece(int(token)) for token in ids]

    def _pretrained(self):
        if self.fitted is not None:
            raise UserError(f'{self.path}: is a fine-tuned run; scoring and generating text want a pretrained one')
        return self

    def _finetuned(self):
        if self.fitted is None:
            raise UserError(f'{self.path}: is a pretrained run; labels want a fine-tuned one')
        return self.fitted


def load(path, step: int | None = None) -> Trained:
    """The run in a directory, here or in an object store (gs://BUCKET/...), at a saved step.

    step: by default the latest of a pretrained run, the best on dev of a fine-tuned one. UserError naming path, step or
    file where there is no such run, and where it is damaged.

    >>> import gpt1_jax
    >>> gpt1_jax.load('runs/gpt1', step=30).step
    30
    >>> gpt1_jax.load('runs/gpt2')
    Traceback (most recent call last):
    gpt1_jax.errors.UserError: runs/gpt2: not a run directory (no config.json in it)
    """
    run = workdir.load(path)
    step, tokenizer = run.step(step), run.tokenizer()
    if run.config['kind'] == 'finetune':
        fitted = prediction.load(run, step)
        model, params, mesh = fitted.model, fitted.params, fitted.mesh
    else:
        fitted, mesh = None, sharding.make_mesh()
        model, params = scoring.restore(run, step, mesh)
    return Trained(str(run.path), run.config['kind'], step, run.config, model, params, tokenizer, mesh, fitted)

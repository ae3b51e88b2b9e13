"""Section 4.1: the weights that a pretraining run begins with where they are another run's (config.init_from)."""
import os

from gpt1_jax import storage
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.errors import UserError
from gpt1_jax.runs import checkpoint, workdir


def find(init_from: str | None, init_step: int | None, tokenizer: Tokenizer,
         directory: str | os.PathLike) -> tuple[workdir.Run | None, str | None]:
    """(the run whose weights this one starts from, their digest), None without one. UserError where its tokenizer is
    another one.

    A run that has a checkpoint goes on from that one, with the digest that it recorded (None where an earlier version
    recorded none): its origin is not read, as it may have gone on or be deleted.
    """
    if init_from is None:
        return None, None
    begun = _begun(init_from, init_step, directory)
    if begun is not None:
        return None, begun['fingerprint'].get('origin')
    other = workdir.load(init_from)
    if other.tokenizer().fingerprint != tokenizer.fingerprint:
        raise UserError(f'{init_from}: its tokenizer is another one; prepare the corpus with '
                        f'--config.tokenizer.source={init_from}/tokenizer')
    return other, checkpoint.params_digest(checkpoint.read_meta(other.checkpoints, other.step(init_step)))


def _begun(init_from, init_step, directory):
    """The config of the run in a directory where it has a checkpoint and began with the weights that these fields name,
    or with some that an earlier version did not record; else None."""
    if not (storage.path(directory) / 'config.json').exists():
        return None
    run = workdir.load(directory)
    origin = run.config.get('init_from')
    if origin is None or not run.steps():
        return None
    same = storage.absolute(origin) == storage.absolute(init_from) and (
        run.config.get('init_step') == init_step)
    return run.config if same or run.config['fingerprint'].get('origin') is None else None

"""Section 4.1: finds the weights of another run with which a run begins (config.init_from)."""

from typing import Any, NamedTuple

from gpt1_jax import storage
from gpt1_jax.errors import UserError, shown
from gpt1_jax.models import build
from gpt1_jax.runs import workdir


class Origin(NamedTuple):
    """The checkpoint with which a run starts. digest: the digest of its parameters."""

    run: workdir.Run
    step: int
    digest: str


def open_origin(path: storage.Path, step: int | None) -> Origin:
    """The Origin in a run directory, at a saved step. UserError if there is none."""
    run = workdir.load(path)
    step = run.step(step)
    return Origin(run, step, run.digest(step))


def check_sizes(origin: Origin, fields: dict[str, Any], given: str) -> None:
    """UserError if the weights have other shapes than the model, naming the model's fields.

    given: config.init_from.
    """
    theirs = origin.run.config['model']
    ours = fields | {'vocab_size': theirs['vocab_size']}
    differing = [
        f'model.{name} is {shown(ours[name])}, that of {given} is {shown(theirs[name])}'
        for name in ('kind', *build.sizes(ours['kind']))
        if name in theirs and ours[name] != theirs[name]
    ]
    if differing and build.shapes(build.backbone(ours)) != build.shapes(build.backbone(theirs)):
        raise UserError(f'config.init_from = {given}: {"; ".join(differing)}')


def find(
    init_from: str | None, init_step: int | None, there: workdir.Run | None
) -> tuple[Origin | None, str | None]:
    """(the Origin of a pretraining run, the digest of its weights).

    Both are None without init_from. If the run that is `there` has a checkpoint, it resumes from
    this checkpoint, with the digest that it recorded. The Origin is then None and not read, because
    the other run may have been trained further or deleted.
    """
    if init_from is None:
        return None, None
    if there is not None and there.steps():
        before = there.config.get('init_from')
        same = before is not None and storage.absolute(before) == storage.absolute(init_from)
        if same and there.config.get('init_step') == init_step:
            return None, there.config['fingerprint'].get('origin')
    origin = open_origin(storage.path(init_from), init_step)
    return origin, origin.digest

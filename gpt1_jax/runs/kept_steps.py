"""Which checkpoints of a pretraining run are kept for good."""
from collections.abc import Iterable, Mapping

from gpt1_jax import storage
from gpt1_jax.runs import checkpoint, workdir


def choose(directory: storage.Path, steps: Iterable[int], words_at: Mapping[int, int]
           ) -> tuple[tuple[int, ...], dict[str, int]]:
    """(steps, {step: words}) for config.json: of checkpoint.keep_steps, of checkpoint.keep_words ({step: words}), and
    those that the run in the directory has kept so far. Steps that it made without saving them cannot be kept: a notice
    names them."""
    saved, there = set(checkpoint.steps(directory / 'checkpoints')), {}
    if (directory / 'config.json').exists():
        there = workdir.load(directory).config.get('checkpoint', {})
    wanted = {*steps, *words_at}
    gone = {step for step in wanted - saved if step < max(saved, default=0)}
    if gone:
        print(f'notice: not kept, as the run has made them without saving them: {", ".join(map(str, sorted(gone)))}',
              flush=True)
    before = {step: words for step, words in there.get('words_at', {}).items() if int(step) in saved}
    return (tuple(sorted((wanted | saved & {*there.get('keep_steps', ())}) - gone)),
            before | {str(step): words_at[step] for step in words_at.keys() - gone})

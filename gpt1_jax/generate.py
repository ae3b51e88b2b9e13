"""What a pretrained model writes after a text. Not in the paper.

    python -m gpt1_jax.generate --init_from=runs/gpt1 --prompt='The old man looked at the sea' --top_k=40
    python -m gpt1_jax.generate --init_from=runs/gpt1 --prompt='Once' --samples=4 --stop='The end' --temperature=0.8

Text is lower-case, punctuation stands apart: so the vocabulary is. Words appear as the model writes them; of several
samples the first one's do. --temperature=0 takes the most probable token always.
"""
from absl import flags

from gpt1_jax import cli, generation, scoring, sharding
from gpt1_jax.sampling import Sampling


def _define_flags():
    how = Sampling()
    flags.DEFINE_string('init_from', None, 'directory of a pretrained run', required=True)
    flags.DEFINE_integer('step', None, 'a saved update (default: the latest)')
    flags.DEFINE_string('prompt', None, 'the text to go on from', required=True)
    flags.DEFINE_integer('tokens', 100, 'at most so many')
    flags.DEFINE_integer('samples', 1, 'so many texts, in one batch')
    flags.DEFINE_float('temperature', how.temperature, 'below 1 more probable, above 1 less; 0 = the most probable')
    flags.DEFINE_integer('top_k', how.top_k, 'of the k most probable tokens alone; 0 = of all')
    flags.DEFINE_float('top_p', how.top_p, 'of the fewest tokens with this share of the probability; 1 = of all')
    flags.DEFINE_integer('seed', how.seed, 'the same one, the same text')
    flags.DEFINE_multi_string('stop', [], 'end before this string; may be given several times')


def main():
    f = flags.FLAGS
    how = Sampling(f.temperature, f.top_k, f.top_p, f.seed)
    run = scoring.open_pretrained(f.init_from)
    step, tokenizer, mesh = run.step(f.step), run.tokenizer(), sharding.make_mesh()
    prompt = tokenizer.decode(generation.encode(tokenizer, [f.prompt])[0])
    generation.written(tokenizer, f.stop)
    model, params = scoring.restore(run, step, mesh)
    heading, began = numbered(0, f.samples) + prompt, False

    def show(_, sample, text):
        nonlocal began
        if sample == 0:
            print(text if began else heading + after(text), end='', flush=True)
            began = True

    try:
        found, = generation.generate(model, params, mesh, tokenizer, [f.prompt], f.tokens, how, f.samples, f.stop, show)
    except KeyboardInterrupt:
        print()  # what is told then is no part of the text
        raise
    print('' if began else heading)
    for sample, one in enumerate(found[1:], 1):
        print(numbered(sample, f.samples) + prompt + after(one.text))


def numbered(sample, samples):
    """The line above one of several samples."""
    return f'--- {sample + 1} of {samples}\n' if samples > 1 else ''


def after(text):
    """A continuation as it stands behind its prompt."""
    return text if text.startswith('\n') or not text else f' {text}'


if __name__ == '__main__':
    cli.run(main, _define_flags)

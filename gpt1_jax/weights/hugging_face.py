"""Hugging Face's OpenAIGPT, both ways: a run to a directory that transformers loads, and such a directory to a run.

    python -m gpt1_jax.weights.hugging_face --export=runs/gpt1 --out=exports/gpt1 --license=apache-2.0
    python -m gpt1_jax.weights.hugging_face --source=exports/gpt1 --out=runs/imported
    python -m gpt1_jax.weights.hugging_face --source=hf:openai-community/openai-gpt --out=runs/openai
    python -m gpt1_jax.weights.hugging_face --export=runs/gpt1 --push=USER/NAME --push_steps --license=apache-2.0

A pretrained run becomes an OpenAIGPTLMHeadModel, a fine-tuned classifier an OpenAIGPTForSequenceClassification. Weights
are float32 both ways and come back to the bit, unless --dtype=bfloat16 rounds them; float16 and bfloat16 files are read
too, and converted without loss. Of a model with another head the backbone is taken. Pickles (pytorch_model.bin) are
never read.
"""
from absl import flags

from gpt1_jax import cli
from gpt1_jax.errors import UserError
from gpt1_jax.weights import from_hub, import_run
from gpt1_jax.weights.export_hugging_face import DTYPES, export
from gpt1_jax.weights.import_hugging_face import convert
from gpt1_jax.weights.push import push


def _define_flags():
    flags.DEFINE_string('export', None, 'a run to export')
    flags.DEFINE_string('source', None, "what to import: Hugging Face's directory, a .safetensors file, hf:USER/NAME "
                        "or 'novels'")
    flags.DEFINE_string('out', None, 'the directory to make (not needed with --push)')
    flags.DEFINE_integer('step', None, 'with --export: a saved step (default: the best one of a fine-tuned run, the '
                         'latest one of a pretrained run)')
    flags.DEFINE_string('push', None, 'with --export: a repository on the Hub, USER/NAME, to push the export to')
    flags.DEFINE_bool('push_steps', False, 'with --push: every kept step, too, as the branch step-STEP')
    flags.DEFINE_bool('private', False, 'with --push: make the repository private, if it does not exist')
    flags.DEFINE_string('license', None, "with --export: of the weights, for the model card, as Hugging Face's "
                        "identifiers say it: 'mit', 'apache-2.0', ... (default: other)")
    flags.DEFINE_enum('dtype', None, list(DTYPES), 'with --export: of the stored weights (default: float32)')
    flags.DEFINE_string('tokenizer', None, 'with --source: a directory of the vocabulary, or a run that has it '
                        '(default: beside the weights)')
    flags.DEFINE_integer('n_head', None, 'with --source=FILE.safetensors, which does not say it: attention heads '
                         '(default: 12)')


def main() -> None:
    f = flags.FLAGS
    if (f.export is None) == (f.source is None):
        raise UserError('give either --export=RUN or --source=DIR_OR_FILE')
    way, others = ('export', ('push', 'step', 'license', 'dtype')) if f.source else ('source', ('tokenizer', 'n_head'))
    for name in others:
        if getattr(f, name) is not None:
            raise UserError(f'--{name} goes with --{way}')
    if (f.push_steps or f.private) and not f.push:
        raise UserError('--push_steps and --private go with --push=USER/NAME')
    if not (f.out or f.push):
        raise UserError('give --out=DIR, the directory to make')
    if f.source:
        source, origin = from_hub.source(f.source)
        print(import_run.report(convert(source, f.out, f.tokenizer, f.n_head, origin)))
        return
    license_name, dtype = f.license or 'other', f.dtype or 'float32'
    if f.out:
        files = export(f.export, f.out, f.step, license_name, dtype)
        print(f'{f.out}: {", ".join(files)}')
    if f.push:
        push(f.export, f.push, f.step, license_name, f.private, f.push_steps, dtype)


if __name__ == '__main__':
    cli.run(main, _define_flags)

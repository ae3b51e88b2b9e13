"""Exports a run as a Hugging Face OpenAIGPT directory, or imports such a directory as a run.

    gpt1 hugging_face --export=runs/gpt1 --out=exports/gpt1 --license=apache-2.0
    gpt1 hugging_face --source=exports/gpt1 --out=runs/imported
    gpt1 hugging_face --source=hf:openai-community/openai-gpt --out=runs/openai

A pretrained run becomes an OpenAIGPTLMHeadModel, and a fine-tuned classifier an
OpenAIGPTForSequenceClassification, which cannot be imported again. Weights are float32 both ways
and survive a round trip bit for bit, unless --dtype=bfloat16 rounds them. float16 and bfloat16
files convert without loss. If a model has another head, only its backbone is imported. Pickles
(pytorch_model.bin) are never read.
"""

from absl import flags

from gpt1_jax import cli, storage
from gpt1_jax.errors import UserError
from gpt1_jax.weights import from_hub, import_run
from gpt1_jax.weights.export_hugging_face import DTYPES, export
from gpt1_jax.weights.import_hugging_face import convert


def _define_flags():
    flags.DEFINE_string('export', None, 'a run to export')
    flags.DEFINE_string(
        'source',
        None,
        "what to import: a Hugging Face directory, a .safetensors file, hf:USER/NAME or 'novels'",
    )
    flags.DEFINE_string('out', None, 'the directory to create', required=True)
    flags.DEFINE_integer(
        'step',
        None,
        'with --export: a saved step (default: the best one of a fine-tuned run, the latest one of '
        'a pretrained run)',
    )
    flags.DEFINE_string(
        'license',
        'other',
        'with --export: of the weights, for the model card, an identifier of Hugging '
        "Face's: 'mit', 'apache-2.0', ...",
    )
    flags.DEFINE_enum('dtype', 'float32', DTYPES, 'with --export: of the stored weights')
    flags.DEFINE_string(
        'tokenizer',
        None,
        'with --source: a directory with the vocabulary, a run, hf:USER/NAME or '
        "'novels' (default: beside the weights)",
    )
    flags.DEFINE_integer(
        'n_head',
        None,
        'with --source=FILE.safetensors, which does not record it: attention heads (default: 12)',
    )


def main() -> None:
    f = flags.FLAGS
    if (f.export is None) == (f.source is None):
        raise UserError('give either --export=RUN or --source=DIR_OR_FILE')
    if f.source:
        source, origin = from_hub.source(f.source)
        tokenizer = storage.path(f.tokenizer) if f.tokenizer else None
        if tokenizer and not tokenizer.exists():
            tokenizer = from_hub.local_run(f.tokenizer)
        print(import_run.report(convert(source, storage.path(f.out), tokenizer, f.n_head, origin)))
        return
    files = export(storage.path(f.export), storage.path(f.out), f.step, f.license, f.dtype)
    print(f'{f.out}: {", ".join(files)}')


if __name__ == '__main__':
    cli.run(main, _define_flags)

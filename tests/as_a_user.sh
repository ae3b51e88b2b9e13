#!/usr/bin/env bash
# What a user types after pip install, in an empty directory: each program once, on files of a few rows.
#   tests/as_a_user.sh BIN     BIN: the folder bin of a virtual environment that holds the wheel
set -euo pipefail
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# runs PATTERN WORDS...: the command succeeds, and its output has the pattern.
runs() {
  local pattern=$1 status=0
  shift
  "$bin/$1" "${@:2}" > out.txt 2> err.txt || status=$?
  if [ $status != 0 ] || ! grep -q -- "$pattern" out.txt; then
    echo "error: exit status $status, or no '$pattern' in the output of: $*" >&2
    tail -n 20 out.txt err.txt >&2
    exit 1
  fi
  echo "ran $1 ${*:2:2}"
}

mkdir text cola
for module in zipfile tarfile json csv ast re random shutil argparse typing; do
  "$bin/python" -m pydoc $module > text/$module.txt
done
for number in 0 1 2 3 4 5 6 7; do
  printf 'x\t1\t\tThe dog saw %s.\nx\t0\t*\tDog the saw %s.\n' $number $number
done | tee cola/train.tsv > cola/dev.tsv
printf 'index\tsentence\n0\tThe dog barked.\n1\tBarked dog the.\n' > cola/test.tsv

runs '  pretrain ' gpt1
runs '  pretrain ' python -m gpt1_jax
runs 'batch\.size: int = 32' gpt1 finetune --config=finetune:cola --help
runs '^tokens: vocabulary of ' gpt1 prepare --out=tokens --corpus=text --valid=0.2 --merges=200 --processes=2
runs 'step 3/3' gpt1 pretrain --config=pretrain --workdir=run --config.data.tokens=tokens --config.model.n_layer=1 \
  --config.model.n_embd=16 --config.model.n_head=2 --config.model.n_inner=64 --config.model.n_ctx=32 \
  --config.batch.size=8 --config.train.steps=3 --config.optimizer.warmup_steps=1
runs '^the old man ' gpt1 generate --init_from=novels --prompt='The old man' --tokens=8 --top_k=40
runs '^perplexity per token ' gpt1 perplexity --init_from=run --text=text/json.txt
runs '^cola dev: matthews ' gpt1 finetune --config=finetune:cola --workdir=fine --config.init_from=run \
  --config.data.dir=cola --config.batch.size=4 --config.train.epochs=1
runs '^2 row' gpt1 predict --init_from=fine --input=cola/test.tsv --output=rows.jsonl
runs '^matthews ' gpt1 metrics fine/predictions_dev.jsonl
runs '^cola zero-shot, step 3: accuracy ' gpt1 zero_shot --config=zero_shot:cola --config.init_from=run \
  --config.data.dir=cola
runs 'model.safetensors' gpt1 hugging_face --export=run --out=exported
runs '^\[-' python -c "import gpt1_jax; print(gpt1_jax.load('novels').score('The cat sat.')[1])"

# A mistake is one line, and no traceback.
if "$bin/gpt1" pretrain --config=pretrain --workdir=run2 --config.data.corpus=nowhere > out.txt 2> err.txt; then
  echo 'error: a corpus that does not exist was accepted' >&2
  exit 1
fi
[ "$(cat err.txt)" = 'error: nowhere: no such file or directory' ] || { cat err.txt >&2; exit 1; }

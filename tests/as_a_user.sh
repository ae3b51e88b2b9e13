#!/usr/bin/env bash
# What a user types after pip install, in an empty directory: each program once, on files of a few rows, then mistakes.
#   tests/as_a_user.sh BIN     BIN: the folder bin of a virtual environment that holds the wheel, and mypy
set -euo pipefail
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GPT1_JAX_CACHE=$work/cache
failed=0 mistakes=0

# timed WORDS...: runs a command of $bin; leaves out.txt, err.txt and status.
timed() {
  local began=$EPOCHREALTIME
  status=0
  "$bin/$1" "${@:2}" > out.txt 2> err.txt || status=$?
  seconds=$(echo "$began $EPOCHREALTIME" | awk '{printf "%5.1f s", $2 - $1}')
}

# wrong WORDS...: reports a command that did not do as it should.
wrong() {
  echo "WRONG   $*, exit status $status"
  tail -n 20 out.txt err.txt
  failed=$((failed + 1))
}

# runs PATTERN WORDS...: the command succeeds, and its output has the pattern.
runs() {
  timed "${@:2}"
  if [ $status != 0 ] || ! grep -q -- "$1" out.txt || grep -q Traceback err.txt; then wrong "${@:2}"; return; fi
  echo "$seconds  ${*:2}"
}

# fails PATTERN WORDS...: the command fails with one line that has the pattern, and no traceback.
fails() {
  mistakes=$((mistakes + 1))
  timed "${@:2}"
  if [ $status = 0 ] || [ "$(grep -c . err.txt)" != 1 ] || ! grep -q -- "^error: .*$1" err.txt ||
     grep -q Traceback out.txt; then wrong "${@:2}"; return; fi
  echo "$seconds  ${*:2}"
  sed 's/^/         /' err.txt
}

mkdir text cola
for module in zipfile tarfile json csv ast re random shutil argparse typing string heapq; do
  "$bin/python" -m pydoc $module > text/$module.txt
done
for number in 0 1 2 3 4 5 6 7; do
  printf 'x\t1\t\tThe dog saw %s.\nx\t0\t*\tDog the saw %s.\n' $number $number
done | tee cola/train.tsv > cola/dev.tsv
printf 'index\tsentence\n0\tThe dog barked.\n1\tBarked dog the.\n' > cola/test.tsv
{
  echo 'review;my label'
  for number in $(seq 60); do
    printf 'A caf\351 of %s tables, and a good one.;very good\nA caf\351 of %s flies, and a bad one.;not good\n' \
      $number $number
  done
} > latin.csv

small='--config.model.n_layer=1 --config.model.n_embd=16 --config.model.n_head=2 --config.model.n_inner=64
  --config.model.n_ctx=32 --config.tokenizer.merges=200 --config.batch.size=8 --config.train.steps=3
  --config.optimizer.warmup_steps=1'
tuning='--config.batch.size=8 --config.train.epochs=1'

runs '  pretrain ' gpt1
runs '  pretrain ' python -m gpt1_jax
runs '^gpt1_jax [0-9]' gpt1 generate --version
runs 'batch\.size: int = 32' gpt1 finetune --config=finetune:cola --help
runs 'step 3/3' gpt1 pretrain --workdir=run --config.data.corpus='text/*.txt' $small
runs '^tokens: vocabulary of ' gpt1 prepare --out=tokens --corpus=text --valid=0.2 --merges=200 --processes=2
runs '^the old man ' gpt1 generate --init_from=novels --prompt='The old man' --tokens=8 --top_k=40
runs '^the old man ' gpt1 generate --init_from=novels --prompt='The old man' --tokens=8 --top_k=40
runs '^perplexity per token ' gpt1 perplexity --init_from=run --text=text/json.txt

fails 'iconv -f WINDOWS-1252' gpt1 finetune --data=latin.csv --text=review --label='my label' --init_from=run \
  --workdir=reviews
iconv -f WINDOWS-1252 -t UTF-8 latin.csv > reviews.csv
runs '^reviews dev: accuracy ' gpt1 finetune --data=reviews.csv --text=review --label='my label' --init_from=run \
  --workdir=reviews $tuning
cut -d ';' -f 1 reviews.csv | head -n 3 > new.csv
runs '^2 row' gpt1 predict --init_from=reviews --input=new.csv --output=answers.jsonl
grep -q '"label": "\(very\|not\) good"' answers.jsonl || { status=0; wrong 'the labels of answers.jsonl'; }
runs '^cola dev: matthews ' gpt1 finetune --config=finetune:cola --workdir=fine --config.init_from=run \
  --config.data.dir=cola --config.batch.size=4 --config.train.epochs=1
runs '^2 row' gpt1 predict --init_from=fine --input=cola/test.tsv --output=rows.jsonl
runs '^matthews ' gpt1 metrics --predictions=fine/predictions_dev.jsonl
runs '^cola zero-shot, step 3: accuracy ' gpt1 zero_shot --config.init_from=run --config.data.dir=cola
runs 'model.safetensors' gpt1 hugging_face --export=run --out=exported
runs '^the file ' gpt1 generate --init_from=exported --prompt='The file' --tokens=4

cat > script.py <<'PYTHON'
import gpt1_jax

gpt1 = gpt1_jax.load('novels')
log_probabilities: list[float] = gpt1.score('The cat sat.').log_probabilities.tolist()
try:
    gpt1.classify(['The cat sat.'])
except gpt1_jax.UserError as error:
    print(log_probabilities, error)
PYTHON
runs '^\[-.* labels need a fine-tuned one' python script.py
runs '^Success: no issues found' python -m mypy --follow-imports=silent --ignore-missing-imports script.py
sed -i 's/gpt1.score(/gpt1.scored(/' script.py
timed python -m mypy --follow-imports=silent --ignore-missing-imports script.py
grep -q 'has no attribute "scored"' out.txt || wrong 'mypy on a method that does not exist'

echo 'def get_config(:' > broken.py
head -c 4096 /dev/urandom > text.bin
cp -r run damaged
find damaged/checkpoints -path '*params*' -type f -size +1k -exec truncate -s 600 {} +
again='gpt1 pretrain --workdir=run2 --config.data.corpus=text'
own='gpt1 finetune --workdir=fine2 --init_from=run --label=my_label'
cp reviews.csv other.csv && sed -i '1s/my label/my_label/' other.csv

fails "did you mean 'pretrain'" gpt1 pretrian
fails 'workdir' gpt1 pretrain
fails 'nowhere: no such file' gpt1 pretrain --workdir=run2 --config.data.corpus=nowhere
fails 'config.data.corpus is empty' gpt1 pretrain --workdir=run2
fails 'help lists what there is' $again --batch_size=8
fails 'batch.size' $again --config.batch.size=many
fails 'batch.size = 10 is not divisible by batch.microbatches = 3' $again \
  --config.batch.size=10 --config.batch.microbatches=3
fails "did you mean 'pretrain'" gpt1 pretrain --config=pretrian --workdir=run2 --config.data.corpus=text
fails 'finetune' gpt1 pretrain --config=finetune:cola --workdir=run2 --config.data.corpus=text
fails "'nope'" gpt1 pretrain --config=babylm:nope --workdir=run2 --config.data.corpus=text
fails 'broken.py' gpt1 pretrain --config=broken.py --workdir=run2 --config.data.corpus=text
fails 'n_head' $again --config.model.n_embd=100 --config.model.n_head=3
fails 'dtype' $again --config.model.dtype=float16
fails 'mesh' $again --config.mesh.data=3
fails 'batch.size' gpt1 pretrain --workdir=run --config.data.corpus='text/*.txt' $small --config.batch.size=4
WORLD_SIZE=2 fails 'WORLD_SIZE=2 .* JAX_NUM_PROCESSES' $again
JAX_PLATFORMS=nothing fails 'JAX_PLATFORMS=nothing' gpt1 generate --init_from=run --prompt=x
fails 'nowhere.csv' $own --data=nowhere.csv --text=review
fails "no column 'revew', did you mean 'review'" $own --data=other.csv --text=revew
fails 'give --text=COLUMN' $own --data=other.csv
fails 'must end in one of .csv' $own --data=text.bin --text=review
fails "did you mean 'novels'" gpt1 finetune --workdir=fine2 --init_from=novel --label=my_label --data=other.csv \
  --text=review
fails 'holds a pretraining run' gpt1 finetune --workdir=run --init_from=run --label=my_label --data=other.csv \
  --text=review
fails 'prompt' gpt1 generate --init_from=run
fails 'temperature is -1' gpt1 generate --init_from=run --prompt=x --temperature=-1
fails 'is a fine-tuned run' gpt1 generate --init_from=fine --prompt=x
fails 'no step 7\|step 7' gpt1 generate --init_from=run --prompt=x --step=7
fails 'damaged' gpt1 generate --init_from=damaged --prompt=x
fails 'not a fine-tuned run' gpt1 predict --init_from=run --input=new.csv --output=x.jsonl
fails 'no column' gpt1 predict --init_from=reviews --input=cola/test.tsv --output=x.jsonl
fails 'nowhere.txt' gpt1 perplexity --init_from=run --text=nowhere.txt
fails 'cola' gpt1 zero_shot --config=zero_shot:colla --config.init_from=run --config.data.dir=cola
fails 'nowhere' gpt1 hugging_face --export=nowhere --out=exported2
fails 'text.bin' gpt1 prepare --out=tokens2 --corpus=text.bin --valid=0.2
fails 'nowhere.jsonl' gpt1 metrics --predictions=nowhere.jsonl

echo "$mistakes mistakes, $failed failed, $SECONDS s in all"
[ $failed = 0 ]

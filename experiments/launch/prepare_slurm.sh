#!/usr/bin/env bash
# A corpus tokenized by a SLURM array, then merged: sbatch experiments/launch/prepare_slurm.sh (the same command
# again goes on with parts that were killed; finished ones are only checked).
#SBATCH --job-name=gpt1-prepare
#SBATCH --array=0-15                # 0 to PARTS - 1; some of them, to run these alone
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=4:00:00
#SBATCH --requeue
set -euo pipefail
PARTS=${PARTS:-16}
CORPUS=${CORPUS:?files, a directory or a pattern}
TOKENIZER=${TOKENIZER:?a directory that holds a tokenizer, the same for all parts}
VALID=${VALID:-0.01}
OUT=${OUT:-runs/tokens}             # on a file system that all nodes share, or gs://BUCKET/...

.venv/bin/gpt1 prepare --out="$OUT" --corpus="$CORPUS" --valid="$VALID" --tokenizer="$TOKENIZER" \
  --part="/$PARTS"                  # the number of this one is $SLURM_ARRAY_TASK_ID
# Then, once: sbatch --dependency=afterok:JOB --wrap ".venv/bin/gpt1 prepare --out=$OUT --merge"

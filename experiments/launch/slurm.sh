#!/usr/bin/env bash
# Pretraining under SLURM: sbatch experiments/launch/slurm.sh --config.data.tokens=DIR ...
#SBATCH --job-name=gpt1
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8         # one process a GPU, as jax expects under SLURM
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120           # two minutes before the end: save, then stop
#SBATCH --requeue
set -uo pipefail
WORKDIR=${WORKDIR:-runs/gpt1}       # on a file system that all nodes share

srun .venv/bin/gpt1 pretrain --config=configs/pretrain.py --workdir="$WORKDIR" \
  --config.model.dtype=bfloat16 "$@"
status=$?
# 75: stopped, the state is saved. The same job goes on where it was.
[ "$status" = 75 ] && scontrol requeue "$SLURM_JOB_ID"
exit "$status"

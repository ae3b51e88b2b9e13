#!/usr/bin/env bash
# Pretraining on a TPU pod slice: the same program on every host; jax finds the others by itself.
# Run it from your own machine, with gcloud set up. Run it again to go on after a preemption.
set -euo pipefail
TPU=${TPU:?name of the TPU VM}                        # gcloud compute tpus tpu-vm create $TPU ...
ZONE=${ZONE:?its zone}
# Paths on the hosts: absolute, or relative to the home directory there; ~ and $ are not expanded.
WORKDIR=${WORKDIR:?gs://BUCKET/RUN, or a directory that all hosts share}  # holds checkpoints and logs
TOKENS=${TOKENS:?a prepared directory}                # made once by gpt1 prepare, seen by all hosts
CLONE=${CLONE:-gpt1_jax}                              # where the clone is on each host, with its .venv of Python 3.11 or newer

exec gcloud compute tpus tpu-vm ssh "$TPU" --zone="$ZONE" --worker=all --command="cd $(printf %q "$CLONE") && \
  .venv/bin/gpt1 pretrain --config=configs/pretrain.py --workdir=$(printf %q "$WORKDIR") \
  --config.data.tokens=$(printf %q "$TOKENS") --config.model.dtype=bfloat16 ${1+$(printf '%q ' "$@")}"

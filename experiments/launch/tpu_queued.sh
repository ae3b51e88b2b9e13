#!/usr/bin/env bash
# Pretraining on spot TPUs: asks for a slice, waits in the queue, trains, and asks again after a preemption, until it is done.
# Run it from the clone's root on a machine of your own, with gcloud set up; arguments go to the program. uv brings Python 3.12,
# as the images of some runtimes have 3.10.
#   TPU=gpt1 ZONE=us-central1-a WORKDIR=gs://BUCKET/runs/gpt1 TOKENS=gs://BUCKET/tokens experiments/launch/tpu_queued.sh
set -euo pipefail
TPU=${TPU:?a name for the slice}
ZONE=${ZONE:?its zone}
WORKDIR=${WORKDIR:?gs://BUCKET/RUN}
TOKENS=${TOKENS:?a prepared directory, gs://BUCKET/...}
TYPE=${TYPE:-v5litepod-16}
RUNTIME=${RUNTIME:-v2-alpha-tpuv5-lite}
POLL=${POLL:-60}                        # seconds between looks at the queue
ERRORS=${ERRORS:-3}                     # failures on a slice that is still there, or of requests, after which it gives up
refused=0                               # requests, since the last look that found one

resources() { local verb=$1; shift; gcloud compute tpus queued-resources "$verb" "$TPU" --zone="$ZONE" "$@"; }
state() { resources describe --format='value(state.state)' 2>/dev/null || echo NONE; }
on_all() { gcloud compute tpus tpu-vm ssh "$TPU" --zone="$ZONE" --worker=all --command="$1"; }

train() {
  local archive
  archive=$(mktemp -d)/gpt1_jax.tar.gz
  git archive --prefix=gpt1_jax/ -o "$archive" HEAD || return 1
  gcloud compute tpus tpu-vm scp "$archive" "$TPU": --zone="$ZONE" --worker=all &&
    on_all "tar xzf gpt1_jax.tar.gz && curl -LsSf https://astral.sh/uv/install.sh | sh && export PATH=\$HOME/.local/bin:\$PATH &&
      uv venv -q --allow-existing --python 3.12 venv &&
      uv pip install -q -p venv/bin/python -c gpt1_jax/constraints.txt 'jax[tpu]' './gpt1_jax[gcs]'" &&
    on_all "venv/bin/gpt1 pretrain --config=pretrain --workdir=$(printf %q "$WORKDIR") \
      --config.data.tokens=$(printf %q "$TOKENS") \
      --config.model.dtype=bfloat16 ${1+$(printf '%q ' "$@")}"
}

while true; do
  case $(state) in
    ACTIVE)
      if train "$@"; then
        resources delete --force --quiet
        exit 0
      fi
      sleep "$POLL"                     # a preemption may take a while to show
      if [ "$(state)" = ACTIVE ] && [ "$((ERRORS -= 1))" -le 0 ]; then
        echo "error: the program failed, and $TPU was not preempted: see its output above; $TPU is still there" >&2
        exit 1
      fi ;;
    NONE)                               # or a look that failed: then there is a slice, and the next look sees it
      if ! resources create --node-id="$TPU" --accelerator-type="$TYPE" --runtime-version="$RUNTIME" --spot; then
        if [ "$((refused += 1))" -ge "$ERRORS" ]; then
          echo "error: $TPU is refused, see above; an earlier request may still be in the queue" >&2
          exit 1
        fi
        sleep "$POLL"
      fi ;;
    FAILED | SUSPENDED)                 # refused, or preempted: ask again
      resources delete --force --quiet ;;
    *)
      refused=0
      sleep "$POLL" ;;
  esac
done

#!/usr/bin/env bash
# What users get, on each Python: the wheel and the sdist built, the wheel installed with its newest dependencies, its
# programs run from an empty directory, and the sdist's fast tests run against it, away from the clone.
#   tests/on_pythons.sh [python3.11 python3.12 python3.13 python3.14]
# With the versions that CI tests: PIP_CONSTRAINT=$PWD/constraints.txt tests/on_pythons.sh
set -euo pipefail
cd "$(dirname "$0")/.."
FAST="tests/models/test_gpt.py tests/training/test_losses.py tests/training/test_optimizer.py tests/models/test_heads.py tests/training/test_loop.py
  tests/runs/test_checkpoint.py tests/test_metrics.py tests/runs/test_services.py tests/experiments/test_tables.py tests/test_cli.py
  tests/evaluation/test_decoding.py tests/evaluation/test_log_probs.py tests/runs/test_resume.py tests/runs/test_rules.py tests/data/test_text.py
  tests/data/test_tokenizer.py tests/data/test_inputs.py tests/data/test_windows.py"
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13 python3.14
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=
for python in "$@"; do
  rm -rf "$work"/*
  "$python" -m venv "$work/venv"
  "$work/venv/bin/pip" install -q build
  "$work/venv/bin/python" -m build -o "$work" . > "$work/build.log" || { cat "$work/build.log"; exit 1; }
  "$work/venv/bin/pip" install -q "$(echo "$work"/*.whl)[test]" mypy
  echo "== $("$work/venv/bin/python" --version), $("$work/venv/bin/pip" list 2>/dev/null | grep -E '^(jax|flax|numpy) ' | xargs)"
  tests/as_a_user.sh "$work/venv/bin" || failed="$failed $python"
  tar xzf "$work"/*.tar.gz -C "$work"
  cd "$work"/gpt1_jax-*/
  rm -r gpt1_jax  # the wheel's is used
  "$work/venv/bin/python" -m pytest -q --disable-warnings -m "not slow" $FAST || failed="$failed $python"
  cd - > /dev/null
done
[ -z "$failed" ] || { echo "error: failed on$failed" >&2; exit 1; }

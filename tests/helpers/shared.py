"""Finds the official data sets and the published vocabulary, which are not in the repository, and
skips tests without them. The directory is $GPT1_JAX_SHARED, by default ../shared beside the
clone."""

import os
import pathlib

import pytest

from tiny import ROOT

SHARED = pathlib.Path(os.environ.get('GPT1_JAX_SHARED') or ROOT.parent / 'shared')
DATA = SHARED / 'data'  # CoLA, SST-2, ..., RACE.tar.gz
VOCABULARY = SHARED / 'openai_vocab'  # the files of OpenAI's release, and golden_encodings.jsonl
CASES = SHARED / 'cases'  # small inputs made by other people, with the expected results
ENCODER = VOCABULARY / 'encoder_bpe_40000.json'
MERGES = VOCABULARY / 'vocab_40000.bpe'

WITHOUT_DATA = f'no official data in {DATA} (GPT1_JAX_SHARED)'
WITHOUT_VOCABULARY = f'no published vocabulary in {VOCABULARY} (GPT1_JAX_SHARED)'
needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f'no {CASES} (GPT1_JAX_SHARED)')
needs_data = pytest.mark.skipif(not DATA.exists(), reason=WITHOUT_DATA)
needs_vocabulary = pytest.mark.skipif(not ENCODER.exists(), reason=WITHOUT_VOCABULARY)

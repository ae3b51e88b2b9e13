"""Faults, put into the package one at a time, and the test that notices each.

    python tests/mutations.py [NAME ...]      all of them, or those whose names contain a word

The package and its tests are copied to a temporary directory; each fault is applied there and its
test must fail, as it must pass without a fault. Whoever deletes a test keeps this list caught;
whoever moves code keeps it current: tests/test_mutations.py (part of every test run) checks that
each `old` text occurs exactly once in its file.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPIED = (
    'gpt1_jax',
    'configs',
    'docs',
    'experiments',
    'tests',
    'setup.cfg',
    'pyproject.toml',
    'README.md',
    'CHANGELOG.md',
)
LIMIT_S = 300  # a fault may make a test wait for ever


class Mutation(NamedTuple):
    """file: inside gpt1_jax/. old: a text that occurs in it once. new: what takes its place. test:
    inside tests/."""

    name: str
    file: str
    old: str
    new: str
    test: str


MUTATIONS = [
    Mutation(*fields)
    for fields in (
        # code and files that nobody named
        (
            'modules of the working directory come first',
            'errors.py',
            'sys.path.append(here)',
            'sys.path.insert(0, here)',
            'test_unasked_code.py::test_a_config_that_the_command_names_may_import_its_neighbours',
        ),
        (
            "a file of a packaged config's name runs",
            'cli/config_file.py',
            "is_path = name.endswith('.py') or os.sep in name",
            'is_path = True',
            'test_unasked_code.py::test_the_packaged_model_and_config_are_taken_and_no_file_of_their_names',
        ),
        (
            "a directory of the packaged model's name is taken",
            'weights/from_hub.py',
            'if name in PACKAGED:',
            'if name in PACKAGED and not os.path.isdir(name):',
            'test_unasked_code.py::test_the_packaged_model_and_config_are_taken_and_no_file_of_their_names',
        ),
        (
            'code is trusted by its file',
            'user_code.py',
            'elif name in _trusted or',
            "elif place in {known.rpartition(':')[0] for known in _trusted} or",
            'test_trust_code.py::test_trust_in_one_name_of_a_file_is_not_trust_in_another',
        ),
        (
            'a report is written through a link',
            'ablation/report.py',
            "storage.write(out / 'report.md', '\\n'.join(lines).encode())",
            "(out / 'report.md').write_text('\\n'.join(lines))",
            'ablation/test_ablate.py::test_nothing_is_written_through_links',
        ),
        # the end of a prompt, windows, looks
        (
            'a long prompt keeps its beginning',
            'evaluation/decoding.py',
            'prompt[-n_ctx:]',
            'prompt[:n_ctx]',
            'evaluation/test_decoding.py::test_of_a_prompt_that_is_longer_than_the_context_the_end_is_read',
        ),
        (
            'evenly spaced windows are not rounded',
            'data/windows.py',
            '.round().astype(int)',
            '.astype(int)',
            'data/test_windows.py::test_evenly_spaced_windows_are_the_nearest_to_equal_steps',
        ),
        (
            'a diverged seed decides',
            'ablation/ledger.py',
            'if one > middle + DIVERGED]',
            'if one > middle + 1e9]',
            'ablation/test_statistics.py::test_what_a_t_test_must_not_decide_is_not_believed',
        ),
        (
            'a log that resumes loses the row of its step',
            'runs/results.py',
            "if row['step'] <= step]\n        storage",
            "if row['step'] < step]\n        storage",
            'runs/test_results.py::test_a_log_that_resumes_keeps_the_row_of_its_step_and_drops_later_rows',
        ),
        (
            "an optimizer of optax's is not scaled by the rate",
            'training/optimizer_config.py',
            'lambda u: learning_rate * u, updates',
            'lambda u: u, updates',
            'test_user_code.py::test_an_optimizer_of_optax_moves_as_it_does_by_itself',
        ),
        # models
        (
            'the causal mask lets a query see the next key',
            'models/ops.py',
            'jnp.tril(jnp.ones((L, L), bool))',
            'jnp.tril(jnp.ones((L, L), bool), 1)',
            'models/test_ops.py::test_values_and_gradients_are_the_formulas',
        ),
        (
            'the causal mask of the blocks does',
            'models/fast/cpu.py',
            'causal = start + jnp.arange',
            'causal = start + 1 + jnp.arange',
            'models/test_backbones.py::test_states_equal_numpy_s_with_dropout_at_each_site',
        ),
        (
            'queries and keys are swapped',
            'models/fast/cpu.py',
            'q, k, v = lax.optimization_barrier(jnp.transpose',
            'k, q, v = lax.optimization_barrier(jnp.transpose',
            'models/test_backbones.py::test_states_equal_numpy_s_with_dropout_at_each_site',
        ),
        (
            "softmax's gradient lacks its sum",
            'models/fast/cpu.py',
            '(dp - jnp.sum(p * dp, axis=-1, keepdims=True))',
            'dp',
            'models/test_ops.py::test_values_and_gradients_are_the_formulas',
        ),
        (
            'positions in the KV cache are off by one',
            'models/kv_cache.py',
            "return module.get_variable('cache', 'length')[0, :, None] + jnp.arange(L)[None]",
            "return module.get_variable('cache', 'length')[0, :, None] + jnp.arange(L)[None] + 1",
            'evaluation/test_log_probs.py::test_sharing_a_forward_pass_over_a_common_prefix_changes_no_value',
        ),
        (
            'all layers have the dropout masks of the first',
            'models/layers.py',
            'jnp.arange(config.n_layer, dtype=jnp.uint32)',
            'jnp.zeros(config.n_layer, jnp.uint32)',
            'models/test_backbones.py::test_states_equal_numpy_s_with_dropout_at_each_site',
        ),
        (
            'the dropout mask of the embedding matrix is shifted by a row',
            'models/gpt.py',
            '(weights, offsets=(0,))',
            '(weights, offsets=(1,))',
            'models/test_gpt.py::test_the_step_s_one_dropped_matrix_serves_tokens_positions_and_the_output_layer',
        ),
        (
            'the bias of a dense layer is dropped',
            'models/fast/xla.py',
            'return add_bias(y, bias.reshape(-1)).reshape',
            'return y.reshape',
            'models/test_ops.py::test_a_dense_layer_has_the_parameters_and_values_of_flaxs',
        ),
        (
            "a bias's gradient is summed in bfloat16",
            'models/ops.py',
            '(x.astype(jnp.float32) + bias).astype(x.dtype)',
            'x + bias.astype(x.dtype)',
            'models/test_numerics.py::test_the_gradient_of_a_bias_that_many_positions_share_is_their_sum_rounded_once',
        ),
        (
            "a bias's gradient is summed in bfloat16 where a gradient is written by hand",
            'models/fast/xla.py',
            'jnp.sum(_exact(dy), axis=',
            'jnp.sum(dy, dtype=dy.dtype, axis=',
            'models/test_numerics.py::test_the_gradient_of_a_bias_that_many_positions_share_is_their_sum_rounded_once',
        ),
        (
            "GELU's cubic term is a square",
            'models/ops.py',
            '0.044715 * z * z * z)',
            '0.044715 * z * z)',
            'models/test_ops.py::test_values_and_gradients_are_the_formulas',
        ),
        (
            "LayerNorm's epsilon is added to the deviation",
            'models/ops.py',
            'jax.lax.rsqrt(variance + 1e-5)',
            '1 / (jnp.sqrt(variance) + 1e-5)',
            'models/test_gpt.py::test_default_epsilon_of_layer_norm_is_1e_5',
        ),
        (
            "LayerNorm's gradient ignores the gain",
            'models/fast/xla.py',
            'dz = dy * scale[None, None]',
            'dz = dy',
            'models/test_ops.py::test_values_and_gradients_are_the_formulas',
        ),
        (
            'kept elements are not rescaled',
            'models/dropout.py',
            'jnp.where(mask, x / (1 - self.rate), 0)',
            'jnp.where(mask, x, 0)',
            'models/test_dropout.py::test_kept_elements_are_divided_by_the_keep_rate_and_others_are_zero',
        ),
        (
            'a part of a batch has the masks of its first rows',
            'models/dropout.py',
            '(self.key.row,) if offsets is None',
            '(0,) if offsets is None',
            'models/test_dropout.py::test_kept_elements_are_divided_by_the_keep_rate_and_others_are_zero',
        ),
        (
            'similarity reads one order of the two',
            'models/heads.py',
            'pooled = jnp.sum(pooled, axis=1, keepdims=True)',
            'pooled = pooled[:, :1]',
            'models/test_heads.py::test_logits_are_a_linear_layer_of_the_states_at_the_extract_tokens',
        ),
        (
            'an absent choice keeps its logit',
            'models/heads.py',
            'jnp.where(present > 0, logits, ABSENT)',
            'jnp.where(present >= 0, logits, ABSENT)',
            'models/test_heads.py::test_logits_are_a_linear_layer_of_the_states_at_the_extract_tokens',
        ),
        (
            "the LSTM's gradient reads the cell of the same step",
            'models/lstm.py',
            '(gates, c, _before(c), dh)',
            '(gates, c, c, dh)',
            'models/test_lstm.py::test_states_losses_and_gradients_equal_those_of_torchs_lstm_with_a_tied_output',
        ),
        (
            "with a cache a user's attention is the built-in one",
            'models/kv_cache.py',
            "code = dict(module.config.ops).get('attention')",
            'code = None',
            'test_own_backbone.py::test_states_of_an_idea_with_a_cache_are_those_without',
        ),
        (
            'results of fine-tuning do not depend on the file of the pretrained backbone',
            'finetuning.py',
            "user_code.digests(config.to_dict() | {'model': sizes})",
            'user_code.digests(config.to_dict())',
            'test_own_backbone.py::'
            'test_a_run_of_the_users_code_learns_resumes_to_the_bit_and_is_fine_tuned_but_not_exported',
        ),
        (
            "code that only a stranger's run names is executed",
            'user_code.py',
            'elif name in _trusted or _everything_trusted:',
            'elif True:',
            'test_trust_code.py::test_python_runs_it_with_trust_code_and_only_that_of_this_run',
        ),
        (
            'verify trusts the optimizer of the run that it reads',
            'verify.py',
            'setting = pretraining.resolve(',
            'pretraining.user_code.trust(this.config)\n        setting = pretraining.resolve(',
            'test_trust_code.py::test_verify_does_not_run_the_optimizer_of_a_stranger',
        ),
        (
            "an own task's file is not part of what a zero-shot row is a function of",
            'zero_shot.py',
            '        user_code.digests(config),',
            '',
            'data/test_own_task.py::test_a_task_of_one_s_own_is_fine_tuned_predicted_and_scored_zero_shot',
        ),
        # training
        (
            'the LM loss is masked by the token before the target',
            'training/losses.py',
            'weights = mask[:, 1:].astype(jnp.float32)',
            'weights = mask[:, :-1].astype(jnp.float32)',
            'training/test_losses.py::test_auxiliary_loss_is_normalised_by_each_sequence_s_own_length_over_all_rows',
        ),
        (
            'the LM loss is a mean over the padded length',
            'training/losses.py',
            '/ jnp.maximum(jnp.sum(weights, axis=1), 1)',
            '/ weights.shape[1]',
            'training/test_losses.py::test_auxiliary_loss_is_normalised_by_each_sequence_s_own_length_over_all_rows',
        ),
        (
            'the softmax of validation covers specials and positions',
            'training/validation.py',
            'rows[: model.config.vocab_size],',
            'rows,',
            'training/test_losses.py::test_windows_that_fill_up_the_last_batch_count_for_nothing',
        ),
        (
            "cross-entropy's gradient lacks the one-hot",
            'models/fast/xla.py',
            'normaliser[:, None]) - one_hot',
            'normaliser[:, None])',
            'models/test_ops.py::test_values_and_gradients_are_the_formulas',
        ),
        (
            "dropout's scale is twice in a part of the gradient of Triton's attention",
            'models/fast/gpu_attention.py',
            'unscaled = out.astype(jnp.float32) * (1 - rate)',
            'unscaled = out.astype(jnp.float32)',
            'models/test_ops.py::test_values_and_gradients_are_the_formulas',
        ),
        (
            "the last part of a row is missing in the loss's kernel",
            'models/fast/gpu_cross_entropy.py',
            'return step(state, last_chunk()) if whole * chunk < R else state',
            'return state',
            'models/test_ops.py::test_a_row_of_logits_is_the_formula_s_in_one_chunk_or_several',
        ),
        (
            "the loss's gradient is not multiplied by what comes after it",
            'models/fast/gpu_cross_entropy.py',
            'xla.outer(by_logit, scaled(hidden))',
            'xla.outer(by_logit, hidden)',
            'models/test_ops.py::test_a_row_of_logits_is_the_formula_s_in_one_chunk_or_several',
        ),
        (
            "Adam's epsilon is under the root",
            'training/optimizer.py',
            '(jnp.sqrt(v) + eps)',
            'jnp.sqrt(v + eps)',
            'training/test_optimizer.py::test_the_first_50_updates_equal_the_released_formula',
        ),
        (
            'biases are decayed',
            'training/optimizer.py',
            "(bias|scale)$'",
            "(scale)$'",
            'training/test_optimizer.py::'
            'test_decay_touches_weights_and_embeddings_but_no_bias_and_no_gain_of_the_stacked_model',
        ),
        (
            'the step of the bias correction is off by one',
            'training/optimizer.py',
            'count = state.count + 1',
            'count = state.count + 2',
            'training/test_optimizer.py::test_the_first_50_updates_equal_the_released_formula',
        ),
        (
            'gradients are not clipped',
            'training/optimizer.py',
            'optax.chain(optax.clip_by_global_norm(clip), transformation) if clip else '
            'transformation',
            'transformation',
            'training/test_optimizer.py::test_the_first_50_updates_equal_the_released_formula',
        ),
        (
            'the cosine ends at half of its way',
            'training/optimizer.py',
            'jnp.cos(jnp.pi * _done(',
            'jnp.cos(jnp.pi / 2 * _done(',
            'training/test_optimizer.py::test_schedules_by_hand',
        ),
        (
            'microbatches repeat the dropout masks of the first',
            'training/microbatches.py',
            '(index * rows).astype(jnp.uint32)',
            'jnp.uint32(0)',
            'parallel/test_every_mesh.py::'
            'test_weights_masks_losses_gradients_and_updates_are_the_same_on_any_mesh_with_dropout_on',
        ),
        (
            'a gradient that is not finite is applied',
            'training/loop.py',
            'jnp.isfinite(value) & jnp.isfinite(norm) & ~state.halted',
            'jnp.isfinite(value) & ~state.halted',
            'training/test_loop.py::test_a_loss_or_gradient_that_is_not_finite_halts_before_the_state_is_touched',
        ),
        (
            'a resumed run reads its batches from the first',
            'training/prefetch.py',
            'ahead = thread.submit(batches.place, step, mesh)',
            'ahead = thread.submit(batches.place, 0, mesh)',
            'training/test_loop.py::test_rows_of_a_loop_that_stopped_between_them_are_those_of_one_that_did_not',
        ),
        (
            'a preempted run does not save',
            'training/loop.py',
            'if signal or intervals.saves(step):',
            'if intervals.saves(step):',
            'training/test_loop.py::test_a_signal_saves_after_the_step_and_says_how_to_go_on',
        ),
        (
            'one layer too many is transferred',
            'training/transfer.py',
            'jnp.where(layers < n_layers, old, new)',
            'jnp.where(layers <= n_layers, old, new)',
            'training/test_transfer.py::test_exactly_n_layers_are_transferred_to_the_bit',
        ),
        (
            'the validation loss counts the windows that fill up the last batch',
            'training/validation.py',
            '/ len(chosen)',
            '/ (size * len(sums))',
            'training/test_losses.py::test_windows_that_fill_up_the_last_batch_count_for_nothing',
        ),
        (
            'the state of the highest validation loss is the best',
            'pretraining.py',
            'return -loss',
            'return loss',
            'test_pretraining.py::test_the_checkpoint_of_the_lowest_validation_loss_is_the_best',
        ),
        (
            'a window on the devices ends with its own first token',
            'training/device_data.py',
            'corpus[numbers + 1, :1]',
            'corpus[numbers, :1]',
            'training/test_device_data.py::test_every_window_is_the_one_that_the_host_would_read',
        ),
        (
            'steps of an earlier process count in the pace',
            'training/log_window.py',
            '(now - self._began) / self._added',
            '(now - self._began) / len(metrics)',
            'training/test_loop.py::test_steps_of_another_process_do_not_count_in_the_pace',
        ),
        (
            'a replayed array is not compared',
            'verify.py',
            "if found['digest'] != recorded[name]['digest']:",
            "if found['shape'] != recorded[name]['shape']:",
            'test_verify.py::test_one_weight_that_was_changed_and_saved_anew_is_named',
        ),
        # data
        (
            'windows do not share a token',
            'data/windows.py',
            'int(i) * n_ctx',
            'int(i) * (n_ctx + 1)',
            'data/test_windows.py::test_windows_overlap_by_one_token_and_cross_shards',
        ),
        (
            'every epoch has the order of the first',
            'data/windows.py',
            'permutation(seed, epoch, n_windows)',
            'permutation(seed, 0, n_windows)',
            'data/test_windows.py::test_every_epoch_visits_every_window_once_in_an_order_of_its_own',
        ),
        (
            "a manifest's digest is not compared",
            'data/prepared.py',
            "manifest.get('digest') != digest(manifest)",
            "'digest' not in manifest",
            'data/test_prepared.py::test_no_flipped_bit_of_a_manifest_is_believed',
        ),
        (
            "a shard's digest is not compared",
            'data/prepared.py',
            "verify and storage.sha256(file) != entry['sha256']",
            "verify and 'sha256' not in entry",
            'data/test_prepared.py::test_what_is_missing_or_damaged_is_named',
        ),
        (
            'a document that is cut for encoding gets a line break at the cut',
            'data/encode.py',
            'if part_ids and not part.goes_on:',
            'if part_ids:',
            'data/test_encode.py::test_a_long_line_is_cut_without_a_trace',
        ),
        (
            'shards of another text are kept',
            'data/shards.py',
            'if found != record or following:',
            "if found['sha256'] != record.get('sha256') or following:",
            'data/test_encode.py::test_shards_of_another_text_are_not_kept',
        ),
        (
            'held-out text is recognised by its name',
            'data/sources.py',
            "digest = text_digest(document) if held_out else b''",
            'digest = document.name.encode()',
            'test_prepare.py::test_a_copy_or_link_of_training_text_is_refused_as_validation_text',
        ),
        (
            'a fraction is held out by name',
            'data/corpus.py',
            "int.from_bytes(text_digest(document)[:8], 'big')",
            'hash(document.name) % 2 ** 64',
            'data/test_corpus.py::test_validation_documents_are_chosen_by_their_text_alone',
        ),
        (
            'the second text follows without a delimiter',
            'data/inputs.py',
            '[*segment[:limit], tokenizer.delimiter_id]',
            '[*segment[:limit], tokenizer.start_id]',
            'data/test_inputs.py::test_texts_are_laid_out_as_in_figure_1',
        ),
        (
            'similarity gets one order twice',
            'data/inputs.py',
            'segments, segments[::-1]',
            'segments, segments',
            'data/test_inputs.py::test_texts_are_laid_out_as_in_figure_1',
        ),
        (
            'a long text loses its beginning',
            'data/inputs.py',
            '*segment[:limit]',
            '*segment[-limit:]',
            'data/test_inputs.py::test_n_texts_keep_their_first_nth_of_the_context_each',
        ),
        (
            'a long passage loses its beginning',
            'data/inputs.py',
            'texts[i][:room]',
            'texts[i][-room:]',
            'data/test_inputs.py::test_race_cuts_the_document_alone_and_alike_for_all_answers',
        ),
        (
            'the two bins of a score are swapped',
            'data/inputs.py',
            'upper = example.label - whole',
            'upper = 1 - example.label + whole',
            'data/test_inputs.py::test_a_score_splits_its_mass_between_the_whole_numbers_around_it',
        ),
        (
            'the extract token is looked for one place too early',
            'data/batches.py',
            'extract[b, k] = len(sequence) - 1',
            'extract[b, k] = len(sequence) - 2',
            'data/test_batches.py::test_padding_puts_mask_and_extract_where_the_tokens_end',
        ),
        (
            'padding counts as text',
            'data/batches.py',
            'k, : len(sequence)] = 1',
            'k] = 1',
            'data/test_batches.py::test_padding_puts_mask_and_extract_where_the_tokens_end',
        ),
        (
            'words keep their case',
            'data/text.py',
            'word.text.lower()',
            'word.text',
            'data/test_text.py::test_words_are_fixed_split_and_lower_cased',
        ),
        (
            'the end of a word is joined after all merges',
            'data/published.py',
            'return 1 if row > characters else 0',
            'return -1e5 if row > characters else 0',
            'data/test_tokenizer.py::test_unknown_characters_are_one_token_each_and_stop_merges',
        ),
        (
            "a tokenizer's fingerprint is not compared",
            'data/tokenizer.py',
            "settings.get('fingerprint') != loaded.fingerprint",
            "'fingerprint' not in settings",
            'data/test_tokenizer.py::test_a_damaged_directory_is_named',
        ),
        (
            'labels of QQP are swapped',
            'data/tasks/glue.py',
            "('not_duplicate', 'duplicate')",
            "('duplicate', 'not_duplicate')",
            'data/test_sets.py::test_every_set_is_the_same_from_every_source',
        ),
        (
            'the two parts of Story Cloze are swapped',
            'data/tasks/qa.py',
            'order[:DEV] if dev else order[DEV:]',
            'order[DEV:] if dev else order[:DEV]',
            'data/test_published_defects.py::test_a_story_left_out_moves_no_other_between_train_and_dev',
        ),
        (
            'workers import the script that spawned them',
            'data/encode.py',
            "    sys.modules['__main__'] = types.ModuleType('__main__')\n",
            '',
            'data/test_ordered_map.py::test_a_script_without_a_main_guard_runs_once',
        ),
        (
            "RACE's passages are sorted as texts",
            'data/tasks/qa.py',
            'int(digits or 0), text',
            '0, text + digits',
            'data/test_choice_sets.py::'
            'test_every_question_is_a_row_middle_school_first_and_passages_by_number',
        ),
        (
            'a class outside TFDS is imported',
            'data/readers/tfds.py',
            '            check(inner)\n',
            '',
            'data/test_tasks_tfds.py::'
            'test_a_class_outside_tfds_is_refused_before_its_module_is_imported',
        ),
        (
            'quotation marks that join rows of a TSV are quoting',
            'data/readers/tables.py',
            "separate = rows if dialect['delimiter'] == '\\t' else 0",
            'separate = 0',
            'data/test_readers.py::test_quotation_marks_of_a_tsv_are_text_if_they_would_join_rows',
        ),
        (
            'the ids of rows depend on bad rows before them',
            'data/tasks/example.py',
            'position += max(1, len(found))',
            'position += len(found)',
            'data/test_published_defects.py::'
            'test_qqp_leaves_its_cut_rows_out_says_so_in_one_line_and_keeps_an_empty_question',
        ),
        (
            'a table is read again for dev',
            'data/tasks/example.py',
            "of_file = self.sources['train'] if shared else source",
            'of_file = source',
            'data/test_own.py::test_a_table_is_read_once_for_labels_training_and_dev',
        ),
        (
            'the text between documents is trained on',
            'data/corpus.py',
            'document.text.split(how.split_at)',
            '[document.text]',
            'data/test_corpus.py::test_a_text_between_documents_divides_files_and_rows',
        ),
        (
            'a subset of the rows is the first of them',
            'data/splits.py',
            'permutation(0, 0, len(examples))[:limit]',
            'range(len(examples))[:limit]',
            'data/test_inputs.py::test_a_limit_takes_the_same_rows_each_time_in_their_order',
        ),
        (
            'the update before the one that reads so many words is kept',
            'data/counts.py',
            'math.ceil(words / words_per_step)',
            'math.floor(words / words_per_step)',
            'data/test_counts.py::'
            'test_the_first_update_by_which_so_many_words_are_read_and_the_challenge_s_names_of_counts',
        ),
        # evaluation
        (
            'a long document loses its beginning zero-shot',
            'evaluation/zero_shot_heuristics.py',
            'document[: n_ctx - rest] + question',
            'document[rest - n_ctx :] + question',
            'evaluation/test_zero_shot_heuristics.py::'
            'test_a_long_document_keeps_its_beginning_alike_for_all_answers',
        ),
        (
            'sequences share the token that predicts their first scored one',
            'evaluation/padding.py',
            'shared = min(shared, len(ids) - 1 - n)',
            'shared = min(shared, len(ids) - n)',
            'evaluation/test_padding.py::test_a_common_prefix_is_shared_where_that_saves_tokens',
        ),
        (
            'the first scored token is one too early',
            'evaluation/log_probs.py',
            'first[g, k] = len(rest) - n',
            'first[g, k] = len(rest) - n - 1',
            'evaluation/test_log_probs.py::test_sums_are_those_of_the_models_softmax_whatever_the_batching',
        ),
        (
            'tokens that a window scored are scored again with less context',
            'evaluation/log_probs.py',
            'new = n_ctx - stride if start else 0',
            'new = 0',
            'test_perplexity.py::test_every_token_after_the_first_is_scored_once_in_its_window',
        ),
        (
            'answers are compared by sums, not means',
            'evaluation/zero_shot_heuristics.py',
            'sums / counts if heuristic.mean else sums',
            'sums',
            'evaluation/test_zero_shot_heuristics.py::test_what_is_scored_and_how_it_is_added_up',
        ),
        (
            'sentences of BLiMP are compared by means, not sums',
            'evaluation/zero_shot_heuristics.py',
            'Heuristic(after_line_break, mean=False',
            'Heuristic(after_line_break, mean=True',
            'evaluation/test_zero_shot_heuristics.py::test_what_is_scored_and_how_it_is_added_up',
        ),
        (
            'a tie is right',
            'evaluation/minimal_pairs.py',
            '(1 + np.sign(scores[:, 0] - scores[:, 1])) / 2',
            '1.0 * (scores[:, 0] >= scores[:, 1])',
            'evaluation/test_minimal_pairs.py::test_sets_come_first_then_phenomena_and_a_tie_is_half_a_pair',
        ),
        (
            'top-p counts the tokens that top-k left out',
            'evaluation/decoding.py',
            'jax.nn.softmax(jnp.where(in_top_k, logits, -jnp.inf), axis=-1)',
            'jax.nn.softmax(logits, axis=-1)',
            'evaluation/test_decoding.py::test_the_tokens_left_are_those_that_a_sorted_list_says',
        ),
        (
            'all rows draw the same random numbers',
            'evaluation/decoding.py',
            "jax.random.fold_in(jax.random.key(how['seed']), stream)",
            "jax.random.key(how['seed'])",
            'evaluation/test_decoding.py::test_a_seed_decides_and_each_stream_has_its_own_numbers',
        ),
        (
            'the score of soft labels is off by one',
            'evaluation/fine_tuned.py',
            '(low + np.arange(weights',
            '(low + 1 + np.arange(weights',
            'test_predict.py::test_a_score_of_soft_labels_is_their_mean',
        ),
        (
            "rows of a batch are not put back in the file's order",
            'evaluation/fine_tuned.py',
            'np.concatenate(parts)[np.argsort(order)]',
            'np.concatenate(parts)',
            'test_predict.py::test_labels_of_single_texts',
        ),
        # metrics
        (
            'F1 is half as strict with misses',
            'metrics/__init__.py',
            'np.maximum(2 * tp + fp + fn, 1)',
            'np.maximum(2 * tp + fp, 1)',
            'test_metrics.py::test_metrics_agree_with_scikit_learn_and_scipy',
        ),
        (
            'Matthews has a factor twice',
            'metrics/__init__.py',
            '(tn + fp) * (tn + fn)',
            '(tn + fp) * (tn + fp)',
            'test_metrics.py::test_metrics_agree_with_scikit_learn_and_scipy',
        ),
        (
            'tied values get their last rank',
            'metrics/__init__.py',
            'moments(rankdata(x), rankdata(y))',
            "moments(rankdata(x, 'max'), rankdata(y, 'max'))",
            'test_metrics.py::test_metrics_agree_with_scikit_learn_and_scipy',
        ),
        (
            'separate bootstraps of the same items draw different ones',
            'metrics/bootstrap.py',
            'grouped: bool = False',
            'grouped: bool = True',
            'experiments/test_tables.py::test_a_difference_is_paired_over_items_and_over_the_seeds_that_both_have',
        ),
        (
            'two runs are resampled apart',
            'metrics/__init__.py',
            'return resampled(terms, METRICS[name].final, seed)',
            'return [resampled([x], METRICS[name].final, seed + i)[0] for i, x in '
            'enumerate(terms)]',
            'test_metrics.py::test_pairing_narrows_the_interval_of_the_difference',
        ),
        # runs
        (
            'a file is not flushed to the disk before it is renamed',
            'storage/__init__.py',
            'os.fsync(stream.fileno())',
            'pass',
            'test_storage.py::test_a_file_is_flushed_to_the_disk_before_it_takes_its_name',
        ),
        (
            'a file is written in place',
            'storage/__init__.py',
            "file.with_name(f'{file.name}.partial')",
            'file',
            'test_storage.py::test_a_failed_write_leaves_what_was_there',
        ),
        (
            'a row is not flushed to the disk',
            'runs/results.py',
            'os.fsync(file.fileno())',
            'pass',
            'runs/test_results.py::test_a_row_is_on_the_disk_when_append_returns',
        ),
        (
            'a held lock is no obstacle',
            'runs/lock.py',
            'raise _refusal(path, found) from None',
            'return None',
            'runs/test_lock.py::test_a_second_process_is_told_who_holds_it',
        ),
        (
            'a lock is not released',
            'runs/lock.py',
            'self._path.unlink()',
            'pass',
            'runs/test_lock.py::test_nothing_is_left_of_a_lock_that_was_given_back',
        ),
        (
            'a process number of another container counts as one here',
            'runs/lock.py',
            "holder.get('numbers') == _numbers() is not None",
            'True',
            'runs/test_lock.py::test_without_flock_a_process_here_that_has_ended_is_not_waited_for',
        ),
        (
            'a file is written through a link that came with a run',
            'storage/__init__.py',
            'os.path.realpath(file) if follow else file',
            'os.path.realpath(file)',
            'test_storage.py::test_a_file_takes_the_place_of_links_and_pipes_and_leaves_what_they_lead_to',
        ),
        (
            "an array's digest is not compared",
            'runs/checkpoint.py',
            "array['digest'] != stored[item][name]['digest']",
            "'digest' not in stored[item][name]",
            'runs/test_checkpoint.py::test_values_changed_behind_orbax_are_caught_by_their_digest_and_a_reading_error_is_no_damage',
        ),
        (
            "the digest of parameters is of the optimizer's state",
            'runs/checkpoint.py',
            "meta['arrays']['params'].items()",
            "meta['arrays']['opt_state'].items()",
            'runs/test_checkpoint.py::'
            'test_the_digest_of_parameters_sees_them_and_no_state_of_the_optimizer',
        ),
        (
            'a digest does not see the order of values',
            'runs/provenance.py',
            'jnp.uint32(stride)',
            'jnp.uint32(0)',
            'runs/test_checkpoint.py::test_the_digest_sees_two_flipped_signs_and_two_swapped_values',
        ),
        (
            'a state is overwritten while it is saved',
            'runs/checkpoint.py',
            'items = jax.tree.map(jnp.copy, items)',
            'pass',
            'runs/test_checkpoint.py::test_what_is_saved_is_a_copy_that_no_update_touches',
        ),
        (
            'the worst step is kept as the best',
            'runs/retention.py',
            '(-finite[step], step)',
            '(finite[step], step)',
            'runs/test_checkpoint.py::test_retention_keeps_the_latest_two_and_the_best_finite_one',
        ),
        (
            'a run goes on from its oldest step',
            'runs/session.py',
            'reversed(checkpoint.steps(directory))',
            'checkpoint.steps(directory)',
            'runs/test_resume.py::test_the_newest_step_is_taken_without_a_word_where_nothing_changed',
        ),
        (
            "another run's tokenizer is taken",
            'runs/workdir.py',
            'expected is not None and tokenizer.fingerprint != expected',
            'expected is not None and not expected',
            'runs/test_mixed_runs.py::test_another_run_s_tokenizer_or_checkpoints_are_refused',
        ),
        (
            'another batch size goes on in the same directory',
            '../configs/pretrain.py',
            "    'batch.size': whole(1),",
            '',
            'test_pretraining.py::'
            'test_what_a_run_there_refuses_is_also_said_by_a_dry_run_and_recorded_nowhere',
        ),
        # parallel
        (
            'a microbatch that the devices do not divide is accepted',
            'parallel/sharding.py',
            'size % (microbatches * n)',
            'size % n',
            'parallel/test_sharding.py::test_a_batch_must_give_every_device_the_same_number_of_rows_of_every_part',
        ),
        (
            "a kernel's axes are divided the other way",
            'parallel/sharding.py',
            "'tensor', 'fsdp')),  # [N, F, D]",
            "'fsdp', 'tensor')),  # [N, F, D]",
            'parallel/test_sharding.py::test_every_leaf_of_the_training_state_has_the_place_that_the_design_gives_it',
        ),
        (
            'one of several processes that is not told so works alone',
            'parallel/processes.py',
            'if launcher:',
            'if False:',
            'parallel/test_processes.py::test_one_of_several_that_does_not_know_which_is_refused_unless_it_is_said_to_be_alone',
        ),
        (
            'attention is left out of the operations',
            'parallel/step_cost.py',
            'total += 12 * n_ctx',
            'total += 0 * n_ctx',
            'parallel/test_step_cost.py::test_the_papers_model_takes_752_75_million_operations_a_token',
        ),
        # weights
        (
            'the two norms of a block are swapped',
            'weights/names.py',
            "'ln_1/scale',\n    'ln_1.bias': 'ln_1/bias',",
            "'ln_2/scale',\n    'ln_1.bias': 'ln_2/bias',",
            'weights/test_novels.py::test_its_perplexity_on_a_paragraph_is_what_it_was',
        ),
        # ablation
        (
            'each confirmation is believed at 5%, however many there are',
            'ablation/statistics.py',
            'of_batch.append(min(CANDIDATE, (1 - CANDIDATE) * level))',
            'of_batch.append(share)',
            'ablation/test_statistics.py::test_one_in_twenty_of_the_believed_is_false_whatever_the_agent_does',
        ),
        (
            'a line of the ledger may be taken out',
            'ablation/ledger.py',
            "if row.get('before') != before:",
            'if False:',
            'ablation/test_ablate.py::test_a_damaged_or_shortened_ledger_is_named',
        ),
        (
            'the last lines of the ledger may be taken out',
            'ablation/ledger.py',
            "if trial['ledger'] not in heads:",
            'if False:',
            'ablation/test_ablate.py::test_a_damaged_or_shortened_ledger_is_named',
        ),
        (
            'only next tokens are exchanged',
            'models/causality.py',
            'other[:, prefix:] = _others(part[:, prefix:], model, generator)',
            'other[:, prefix:prefix + 1] = _others(part[:, prefix:prefix + 1], model, generator)',
            'models/test_causality.py::test_an_exchange_reaches_all_later_tokens',
        ),
        (
            'a confirmation uses the seeds of the screens',
            'ablation/ledger.py',
            'FRESH = 1000',
            'FRESH = 0',
            'ablation/test_ablate.py::'
            'test_only_what_looks_better_is_confirmed_on_fresh_seeds_at_twice_the_length',
        ),
        (
            'a confirmation has the seeds of the one before',
            'ablation/ledger.py',
            "first = max(first, before['seeds'][-1] + 1)",
            "first = max(first, before['seeds'][0])",
            'ablation/test_ablate.py::test_each_confirmation_has_fresh_seeds_and_counts_if_it_is_given_up',
        ),
        (
            'an interval within the least difference is better',
            'ablation/ledger.py',
            'if found.within(least):',
            'if found.within(0.0):',
            'ablation/test_statistics.py::test_a_verdict_for_every_interval',
        ),
        (
            'code that only a ledger names runs',
            'ablation/ablate.py',
            "# The user's own words may name code. The ledger's may not, without --trust_code.",
            'user_code.trust_everything()',
            'test_trust_code.py::test_no_program_runs_the_code_that_only_a_run_names',
        ),
    )
]


def copy_to(directory: pathlib.Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns('__pycache__')
            shutil.copytree(source, directory / name, ignore=ignore)
        else:
            shutil.copy(source, directory)


def run(directory: pathlib.Path, *tests: str) -> tuple[int | None, str]:
    """(exit status of pytest, None if it ran too long; the end of its output)."""
    options = '-m pytest -n 0 -q -x -p no:cacheprovider -m'.split()
    words = [sys.executable, *options, '', *(f'tests/{test}' for test in tests)]
    with open(directory / 'log', 'w') as log:
        child = subprocess.Popen(
            words, cwd=directory, stdout=log, stderr=log, start_new_session=True
        )
        try:
            status = child.wait(LIMIT_S * len(tests))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = None
    return status, (directory / 'log').read_text()[-3000:]


def check(directory: pathlib.Path, mutation: Mutation) -> bool:
    """Whether the test notices the fault; prints a line."""
    began = time.monotonic()
    file = directory / 'gpt1_jax' / mutation.file
    source = file.read_text()
    file.write_text(source.replace(mutation.old, mutation.new))
    status, output = run(directory, mutation.test)
    file.write_text(source)
    # 1: a test failed. Any other status, such as that of a module that cannot be imported, is no
    # answer.
    words = {0: 'NOT CAUGHT', 1: 'caught', None: 'caught: it never ended'}
    found = words.get(status, f'no answer ({status})\n{output}')
    print(f'{time.monotonic() - began:4.0f} s  {mutation.name}: {found}', flush=True)
    return status in (1, None)


def main(words: list[str]) -> int:
    chosen = [
        mutation
        for mutation in MUTATIONS
        if not words or any(word in mutation.name for word in words)
    ]
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        copy_to(directory)
        # Both variables of the cache, or tests/conftest.py gives each process its own. Without
        # bytecode, as a file that was changed twice within a second would be taken for the one
        # before.
        os.environ.update(
            PYTHONPATH=str(directory),
            PYTHONDONTWRITEBYTECODE='1',
            JAX_PLATFORMS='cpu',
            JAX_COMPILATION_CACHE_DIR=str(directory / 'programs'),
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS='0',
        )
        status, output = run(directory, *dict.fromkeys(mutation.test for mutation in chosen))
        if status != 0:
            print(f'{output}\nwithout a fault the tests do not pass')
            return 1
        caught = sum(check(directory, mutation) for mutation in chosen)
    print(f'{caught} of {len(chosen)} caught')
    return 0 if caught == len(chosen) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

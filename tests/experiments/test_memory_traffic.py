"""Bytes that the kernels of a GPU move, on HLO text by hand."""
import pytest

from experiments.compile import kernels

pytestmark = pytest.mark.full

MODULE = """\
HloModule jit_step

%add (p0: f32[8,16], p1: bf16[8,16]) -> (f32[8,16], f32[8]) {
  %p0 = f32[8,16]{1,0} parameter(0)
  %p1 = bf16[8,16]{1,0} parameter(1)
  %wide = f32[8,16]{1,0} convert(%p1)
  %sum = f32[8,16]{1,0} add(%p0, %wide)
  %rows = f32[8]{0} reduce(%sum), dimensions={1}
  ROOT %both = (f32[8,16]{1,0}, f32[8]{0}) tuple(%sum, %rows)
}

%read_slice (p0: f32[4,8,16], p1: s32[]) -> f32[8,16] {
  %p0 = f32[4,8,16]{2,1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %one = f32[1,8,16]{2,1,0} dynamic-slice(%p0, %p1, %p1, %p1), dynamic_slice_sizes={1,8,16}
  ROOT %flat = f32[8,16]{1,0} bitcast(%one)
}

%write_slice (p0: f32[4,8,16], p1: f32[1,8,16], p2: s32[]) -> f32[4,8,16] {
  %p0 = f32[4,8,16]{2,1,0} parameter(0)
  %p1 = f32[1,8,16]{2,1,0} parameter(1)
  %p2 = s32[] parameter(2)
  ROOT %updated = f32[4,8,16]{2,1,0} dynamic-update-slice(%p0, %p1, %p2, %p2, %p2)
}

%product (p0: bf16[8,16], p1: bf16[16,4]) -> bf16[8,4] {
  %p0 = bf16[8,16]{1,0} parameter(0)
  %p1 = bf16[16,4]{1,0} parameter(1)
  ROOT %dot = bf16[8,4]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (s: (f32[4,8,16])) -> (f32[4,8,16]) {
  %state = (f32[4,8,16]) parameter(0)
  %stack = f32[4,8,16]{2,1,0} get-tuple-element(%state), index=0
  %i = s32[] constant(1)
  %layer = f32[8,16]{1,0} fusion(%stack, %i), kind=kLoop, calls=%read_slice, metadata={op_name="read"}
  ROOT %next = (f32[4,8,16]) tuple(%stack)
}

%condition (s: (f32[4,8,16])) -> pred[] {
  %state = (f32[4,8,16]) parameter(0)
  ROOT %more = pred[] constant(true)
}

ENTRY %main (a: f32[8,16], b: bf16[8,16], w: bf16[16,4], stack: f32[4,8,16], one: f32[1,8,16]) -> bf16[8,4] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = bf16[8,16]{1,0} parameter(1)
  %w = bf16[16,4]{1,0} parameter(2)
  %stack = f32[4,8,16]{2,1,0} parameter(3)
  %one = f32[1,8,16]{2,1,0} parameter(4)
  %i = s32[] constant(1)
  %both = (f32[8,16]{1,0}, f32[8]{0}) fusion(%a, %b), kind=kInput, calls=%add, metadata={op_name="add"}
  %state = (f32[4,8,16]) tuple(%stack)
  %loop = (f32[4,8,16]) while(%state), condition=%condition, body=%body, "known_trip_count":{"n":"3"}
  %after = f32[4,8,16]{2,1,0} fusion(%stack, %one, %i), kind=kLoop, calls=%write_slice, metadata={op_name="write"}
  %mine = bf16[8,16]{1,0} custom-call(%b, %b, %b), custom_call_target="__gpu$xla.gpu.triton", metadata={op_name="ours"}
  ROOT %out = bf16[8,4]{1,0} fusion(%mine, %w), kind=kCustom, calls=%product, metadata={op_name="dot"}
}
"""


def test_kernels_read_their_operands_once_and_write_their_results_and_loops_run_as_often_as_they_say():
    found = {one.name: (one.kind, one.bytes, one.times) for one in kernels.kernels(MODULE)}
    assert found == {
        'add': ('other', 512 + 256 + 512 + 32, 1),
        'read': ('other', 512 + 4 + 512, 3),           # a slice of the stack, the index, the layer
        'write': ('other', 512 + 4 + 512, 1),          # the new slice, the index, and the slice in its place
        'ours': ('ours', 256 + 256, 1),                # one operand three times: each place reads its own part
        'dot': ('product', 256 + 128 + 64, 1)}


def test_a_loop_that_does_not_say_how_often_it_runs_is_an_error():
    with pytest.raises(ValueError, match='does not tell how often its loop runs'):
        kernels.kernels(MODULE.replace(', "known_trip_count":{"n":"3"}', ''))

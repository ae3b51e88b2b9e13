"""Floating-point operations of a compiled step's matrix products, from the text of its HLO module."""
import json
import math
import re

from experiments.compile import hlo_text, layouts
from experiments.compile.hlo_text import Instruction, Module

OPCODES = ('dot', 'convolution')  # the compiler for TPUs writes every product as a convolution


def flops(module: Module, computation: str, one: Instruction) -> int:
    """FLOP of an instruction of `computation`, with all that is fused into it: 2 a multiplication and addition.

    Of a Pallas kernel, those that its `cost_estimate` states; 0 where it states none.
    """
    if one.opcode == 'custom-call':
        return _called(module, computation, one)
    total = 0
    for where, each in ((computation, one), *module.inside(one)):
        if each.opcode == 'dot':
            total += _dot(module, where, each)
        elif each.opcode == 'convolution':
            total += _convolution(module, where, each)
    return total


def is_product(module: Module, one: Instruction) -> bool:
    """Whether a kernel computes a matrix product: itself, within a fusion, or by a call of the GPU's library."""
    target = re.search(r'custom_call_target="([^"]*)"', one.attributes)
    if target:
        return 'matmul' in target[1] or 'gemm' in target[1]
    return one.opcode in OPCODES or any(each.opcode in OPCODES for _, each in module.inside(one))


def _dot(module, computation, one):
    contracted = re.search(r'lhs_contracting_dims=\{([\d,]*)\}', one.attributes)
    dims = _dims(module.operand(computation, one, 0).shape)
    return 2 * layouts.elements(one.shape) * math.prod(dims[int(i)] for i in contracted[1].split(',') if i)


def _called(module, computation, one):
    """Of cuBLAS's and cuDNN's products by their configuration, of a Pallas kernel as it says itself."""
    stated = re.search(r'"cost_estimate":\{[^}]*"flops":"?(\d+)', one.attributes)
    if stated:
        return int(stated[1])
    contracted = re.search(r'"lhs_contracting_dimensions":(\[[^\]]*\])', one.attributes)
    if contracted is None:
        return 0
    dims = _dims(module.operand(computation, one, 0).shape)
    return 2 * layouts.elements(one.shape) * math.prod(dims[int(i)] for i in json.loads(contracted[1]))


def _convolution(module, computation, one):
    """2 x the result's elements x the terms of each sum: the input features, and the taps of the window that are more
    than a batch dimension (of which one tap is valid) or an outer dimension of the right side (padded in full)."""
    labels = re.search(r'dim_labels=([\w?]+)_([\w?]+)->([\w?]+)', one.attributes)
    terms = _dims(module.operand(computation, one, 1).shape)[labels[2].index('i')]
    window = re.search(r'window=\{([^}]*)\}', one.attributes)
    if window:
        fields = dict(field.split('=') for field in window[1].split())
        sizes = [int(size) for size in fields['size'].split('x')]
        dilated = [int(n) for n in fields['lhs_dilate'].split('x')] if 'lhs_dilate' in fields else [1] * len(sizes)
        pads = fields['pad'].split('x') if 'pad' in fields else ['0_0'] * len(sizes)
        for size, dilation, pad in zip(sizes, dilated, pads):
            padding = sum(int(side) for side in pad.split('_'))
            if dilation == 1 and not (padding and padding >= 2 * (size - 1)):
                terms *= size
    return 2 * layouts.elements(one.shape) * terms


def _dims(shape):
    return hlo_text.arrays(shape)[0][1]

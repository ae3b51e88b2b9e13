"""The training steps in PyTorch that compare.py measures ours against.

'nanogpt' is the architecture of nanoGPT's train.py by default: pre-LN, tied, no biases, exact GELU,
flash attention, the vocabulary rounded up to a multiple of 64. 'post-ln' has GPT-1's order with
biases and tanh GELU, and is the same model as ours. 'hugging-face' is transformers'
OpenAIGPTLMHeadModel. All have the config's dropout at embedding, attention and both outputs, Adam
with decoupled decay on matrices, clipping at 1, and float32 weights and moments. Products are in
bfloat16 if the config's dtype is bfloat16, and otherwise in its precision.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from gpt1_jax.errors import UserError
from gpt1_jax.models.gpt import GPTConfig


class Block(nn.Module):
    def __init__(self, c, post) -> None:
        super().__init__()
        self.n_head = c.n_head
        self.post = post
        self.qkv, self.out = (
            nn.Linear(c.n_embd, 3 * c.n_embd, bias=post),
            nn.Linear(c.n_embd, c.n_embd, bias=post),
        )
        self.fc, self.proj = (
            nn.Linear(c.n_embd, c.n_inner, bias=post),
            nn.Linear(c.n_inner, c.n_embd, bias=post),
        )
        self.ln_1, self.ln_2 = nn.LayerNorm(c.n_embd, bias=post), nn.LayerNorm(c.n_embd, bias=post)
        self.gelu, self.drop = (
            nn.GELU(approximate='tanh' if post else 'none'),
            nn.Dropout(c.resid_dropout),
        )
        self.attn_dropout = c.attn_dropout

    def attention(self, x):
        B, L, D = x.shape
        q, k, v = (
            part.view(B, L, self.n_head, -1).transpose(1, 2) for part in self.qkv(x).split(D, dim=2)
        )
        rate = self.attn_dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
        return self.drop(self.out(y.transpose(1, 2).reshape(B, L, D)))

    def mlp(self, x):
        return self.drop(self.proj(self.gelu(self.fc(x))))

    def forward(self, x):
        if self.post:
            x = self.ln_1(x + self.attention(x))
            return self.ln_2(x + self.mlp(x))
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    """A Transformer: tokens, int[B, L + 1] -> the mean loss of the last L tokens."""

    def __init__(self, c, post) -> None:
        super().__init__()
        rows = c.vocab_size if post else -(-c.vocab_size // 64) * 64
        self.tokens, self.positions = nn.Embedding(rows, c.n_embd), nn.Embedding(c.n_ctx, c.n_embd)
        self.blocks = nn.ModuleList(Block(c, post) for _ in range(c.n_layer))
        self.last = nn.Identity() if post else nn.LayerNorm(c.n_embd, bias=False)
        self.drop = nn.Dropout(c.embd_dropout)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and post:
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.tokens(tokens[:, :-1]) + self.positions.weight[None, : tokens.shape[1] - 1]
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.last(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class HuggingFace(nn.Module):
    def __init__(self, c) -> None:
        super().__init__()
        from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

        if c.n_inner != 4 * c.n_embd:
            raise UserError(
                "transformers' OpenAIGPT has a feed-forward network four times as wide as its "
                'states'
            )
        self.model = OpenAIGPTLMHeadModel(
            OpenAIGPTConfig(
                vocab_size=c.vocab_size + c.n_special,
                n_positions=c.n_ctx,
                n_embd=c.n_embd,
                n_layer=c.n_layer,
                n_head=c.n_head,
                embd_pdrop=c.embd_dropout,
                attn_pdrop=c.attn_dropout,
                resid_pdrop=c.resid_dropout,
            )
        )

    def forward(self, tokens):
        logits = self.model(tokens[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def prepare(
    name: str, c: GPTConfig, tokens: np.ndarray, peak_rate: float, compiled: bool
) -> tuple[Callable[[int], float], str]:
    """Returns (run, device). run(n) makes n more steps, waits for the device, and returns the loss
    before the last.

    name: 'nanogpt', 'post-ln' or 'hugging-face'. tokens: int[B, n_ctx + 1]. compiled: by
    torch.compile. JAX's precision 'default' on a GPU is TF32, like 'high'.
    """
    torch.manual_seed(0)
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    torch.set_float32_matmul_precision('highest' if c.precision == 'highest' else 'high')
    model = HuggingFace(c) if name == 'hugging-face' else Model(c, post=name == 'post-ln')
    model = model.to(device).train()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{'params': decayed, 'weight_decay': 0.01}, {'params': others, 'weight_decay': 0.0}],
        lr=peak_rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        fused=True,
    )
    loss_of = torch.compile(model) if compiled else model
    batch = torch.as_tensor(tokens, dtype=torch.long, device=device)

    def run(n):
        for _ in range(n):
            with torch.autocast(device, torch.bfloat16, enabled=c.dtype == 'bfloat16'):
                loss = loss_of(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return run, torch.cuda.get_device_name() if device == 'cuda' else 'cpu'

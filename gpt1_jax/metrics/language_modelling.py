"""Perplexity and bits per byte, from the losses of a language model."""
import math


def perplexity(loss: float) -> float:
    """e^loss, of a mean loss in nats per token or word; finite for any loss."""
    return math.exp(min(loss, 700))


def bits_per_byte(loss: float, bytes_per_token: float) -> float:
    """Of a mean loss in nats per token."""
    return loss / math.log(2) / bytes_per_token

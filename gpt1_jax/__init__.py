"""GPT-1: Improving Language Understanding by Generative Pre-Training, Radford et al., 2018."""
__version__ = '0.1.0'

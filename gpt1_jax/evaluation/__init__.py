"""Sections 4.2 and 5: scoring, prediction, generation and attention maps of trained models."""

"""Generators p(c, x): crystals with their compositions, and fine-tuning them on rewards."""

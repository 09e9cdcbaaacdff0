"""Likelihood training of a prior on what searches found (app:csp-finetune)."""

"""Trainable distributions of crystals: networks, processes, trainer, files. Priors adapt them thinly."""

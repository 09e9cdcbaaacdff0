"""Attacks on finds: a find is a claim, each level tries to break it, and what it survived is written down."""

"""Phases that no database lists, made from templates under a potential: so that its hull has fewer holes."""

"""Crystals that people take away: chosen from a campaign or a catalogue, in the files of other programs."""

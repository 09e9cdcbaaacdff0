"""Learned priors: omatg, kldm and crystalite, their data, networks, training and weights."""

"""Observes a training program of PyTorch that nobody edits, from within each of its processes.

`inject/sitecustomize.py` gets in, `start` patches torch, `recorder` follows the training steps, `rank_trace` writes what one
rank did. Merging the ranks is the parent's: `parity.record`. Where a program is to train on recorded numbers in place of its
own, `stand_in` says when to give which.

Counterpart: tf_towers.record
"""

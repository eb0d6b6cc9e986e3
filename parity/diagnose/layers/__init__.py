"""Computes single layers and losses again by other rules: which of them gives what the candidate has?"""

"""Replays recorded scripts: a port is fed what a script was fed, and compared with it."""

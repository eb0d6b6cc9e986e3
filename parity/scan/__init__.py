"""What legacy source contains, read and never run: its towers, what will go wrong, and what comes next."""

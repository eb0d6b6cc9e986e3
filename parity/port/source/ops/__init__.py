"""What writes each kind of op as an expression of torch."""

"""Joins the variables of two sides by running them, or by what was recorded of them."""

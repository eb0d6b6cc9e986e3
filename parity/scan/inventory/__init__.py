"""Where towers are built, and what is known of each of them."""

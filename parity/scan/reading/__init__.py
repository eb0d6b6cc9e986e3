"""Files of source, as bytes that may hold anything, read into syntax trees."""

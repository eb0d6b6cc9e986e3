"""What the lessons ask to be programmed: a right answer, the cases that check one, and wrong answers that people give."""

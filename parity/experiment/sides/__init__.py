"""The sides of a comparison: live TensorFlow, a golden trace, torch; and single steps of them once more."""

"""Mixed precision with the calls and the rules of Apex amp, on CPU and GPU, without Apex."""

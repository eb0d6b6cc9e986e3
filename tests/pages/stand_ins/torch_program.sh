# A training program of PyTorch, and no trace of another one.
cp "$CHECKOUT/tests/pages/stand_ins/torch_program.py" train.py
rm -rf trace

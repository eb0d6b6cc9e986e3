# A training program of PyTorch, what was recorded of it, and a file that says which weight is which.
cp "$CHECKOUT/tests/pages/stand_ins/torch_program.py" train.py
printf '[mapping]\n"hidden.weight" = "hidden.weight"\n' > port.toml
[ -e trace ] || parity record --steps 3 --shadow --out trace -- torchrun --nproc_per_node 2 train.py

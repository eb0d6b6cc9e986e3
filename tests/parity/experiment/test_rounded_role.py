"""A port that runs once more with rounded hyper-parameters is told everything that it was told before."""

from concurrent.futures import Future

from support.tiny_case import write_case

from parity.case import load_case
from parity.experiment.sides.torch_side import TorchSide

PART = '\n[optimizers.head]\nonly = "w"\nname = "sgd"\nlearning_rate = 0.2\n'


class RunSpec:
    """A side that keeps what it is asked."""

    def __init__(self):
        self.torch, self.descriptions = self, []

    def ask(self, what, **arguments):
        assert what == "prepare"
        self.descriptions.append(arguments)
        return Future()


def test_the_rounded_port_keeps_its_further_optimizers(tmp_path):
    write_case(tmp_path / "case")
    file = tmp_path / "case" / "case.toml"
    file.write_text(file.read_text() + PART)
    sides = RunSpec()
    role = TorchSide(load_case(tmp_path / "case"), sides, tmp_path, lambda what, done, total: None)
    role.give_to_parts({"head": ["w"]})
    role.decay_only(["w"])
    role.prepare("float64")
    role.rounded(tmp_path / "rounded", {0: 0.1}, None).prepare("float64")
    plain, rounded = sides.descriptions
    assert rounded["round_hyper_parameters"] is True
    assert plain["case"]["optimizers"]["head"]["names"] == ["w"]
    assert rounded["case"] == {**plain["case"], "recorded_rates": {"0": 0.1}}

"""Names of several optimizers, and of the modules that they train: of the program's variables, and no two the same."""

import sys

import torch

from torch_ddp.record.sections import Section, name_uniquely


def sections_of(*models):
    made = [Section(torch.optim.SGD(model.parameters(), lr=0.1), number) for number, model in enumerate(models)]
    for section, model in zip(made, models, strict=True):
        section.models = {"": model}
    return made


def test_weights_of_one_name_in_two_models_have_names_of_their_own():
    generator, discriminator = (torch.nn.Linear(2, 2) for _ in range(2))
    sections = sections_of(generator, discriminator)
    name_uniquely(sections, sys._getframe())
    assert [list(section.named_parameters()) for section in sections] == [
        ["generator.weight", "generator.bias"],
        ["discriminator.weight", "discriminator.bias"],
    ]
    # What is found later of the same model keeps its name.
    name_uniquely([*sections, *sections_of(generator)], sys._getframe())
    assert [list(section.models) for section in sections] == [["generator."], ["discriminator."]]


def test_models_of_one_variable_or_of_none_are_numbered():
    sections = sections_of(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    name_uniquely(sections)
    assert [list(section.models) for section in sections] == [["model0."], ["model1."]]


def test_one_model_of_two_optimizers_needs_no_name():
    model = torch.nn.Linear(2, 2)
    sections = sections_of(model, model)
    name_uniquely(sections, sys._getframe())
    assert [section.models for section in sections] == [{"": model}, {"": model}]

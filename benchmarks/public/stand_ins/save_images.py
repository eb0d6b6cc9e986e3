"""Stands for a writer of pictures."""


def save_images(images, path):
    pass

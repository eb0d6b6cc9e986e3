"""What can be trained: each task has data, a model, a loss and what is measured, in a file of its own."""

from tasks import digits, images, text, volumes
from tasks.task import Task as Task

TASKS = {"digits": digits.task, "text": text.task, "images": images.task, "volumes": volumes.task}

"""A light model of a repository: names with what they stand for, functions, who calls whom, where values come from."""

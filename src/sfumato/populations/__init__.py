"""Anonymity in a population: the table is a sample, and the question is who is unique out there."""

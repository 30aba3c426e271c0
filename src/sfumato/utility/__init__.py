"""What a release cost, and what it is still good for."""

from sfumato.utility.measures import (
    Similarity,
    Utility,
    average_class_size,
    certainty_penalty,
    column_losses,
    discernibility,
    general_loss,
    granularity,
    information_loss,
    majority_penalty,
    non_uniform_entropy,
    similarity,
    summarize,
    weighted_discernibility,
)
from sfumato.utility.models import Accuracy, accuracy, cross_validated
from sfumato.utility.queries import (
    Answer,
    Query,
    Workload,
    answer_workload,
    distribution_distances,
    random_queries,
)
from sfumato.utility.view import View, compare, pair_tables

__all__ = [
    "Accuracy",
    "Answer",
    "Query",
    "Similarity",
    "Utility",
    "View",
    "Workload",
    "accuracy",
    "answer_workload",
    "average_class_size",
    "certainty_penalty",
    "column_losses",
    "compare",
    "cross_validated",
    "discernibility",
    "distribution_distances",
    "general_loss",
    "granularity",
    "information_loss",
    "majority_penalty",
    "non_uniform_entropy",
    "pair_tables",
    "random_queries",
    "similarity",
    "summarize",
    "weighted_discernibility",
]

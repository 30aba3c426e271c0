"""What a release cost, and what it is still good for."""

from sfumato.utility.accuracy import Accuracy, accuracy, cross_validated
from sfumato.utility.classes import (
    Similarity,
    average_class_size,
    discernibility,
    majority_penalty,
    similarity,
    weighted_discernibility,
)
from sfumato.utility.loss import (
    certainty_penalty,
    column_losses,
    general_loss,
    granularity,
    information_loss,
    non_uniform_entropy,
)
from sfumato.utility.pairing import pair_tables
from sfumato.utility.queries import (
    Answer,
    Query,
    Workload,
    answer_workload,
    distribution_distances,
    random_queries,
)
from sfumato.utility.summary import Utility, summarize
from sfumato.utility.view import View

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

"""Trains a small real transformer, and saves and goes on as training of the small model does."""

from __future__ import annotations

from runtime.benchmarks.training import Training
from runtime.contract.options_training import TransformerOptions
from runtime.training.transformer import Transformer


class TransformerTraining(Training):
    """Operations as Training's. A mesh axis named `model` shares each layer; the others share batch and matrices."""

    options_class = TransformerOptions
    options: TransformerOptions

    def model(self) -> Transformer:
        given = self.options
        return Transformer(
            given.layers, given.width, given.heads, given.vocabulary, given.sequence, given.batch
        )

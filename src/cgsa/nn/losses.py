"""Losses that PyTorch does not have in the form of the papers."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_nll(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """Return the mean Gaussian negative log-likelihood of eq. (1), without its constant.

    ``1/2 log sigma^2 + (c - mu)^2 / (2 sigma^2)``, summed over the conditions; all are (windows, conditions).
    """
    each = 0.5 * log_variance + 0.5 * (target - mean) ** 2 * torch.exp(-log_variance)
    return each.sum(dim=1).mean()


def supervised_contrastive(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return the supervised contrastive loss (Khosla et al., 2020, "out" form).

    Embeddings are unit vectors, (samples, width); samples of one class attract each other. An anchor that is the only
    one of its class has no pair and is left out; with no pair at all the loss is zero.
    """
    similarity = embeddings @ embeddings.T / temperature
    diagonal = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    log_probability = similarity - torch.logsumexp(similarity.masked_fill(diagonal, -torch.inf), dim=1, keepdim=True)
    positive = (labels[:, None] == labels[None, :]) & ~diagonal
    pairs = positive.sum(dim=1)
    per_anchor = -(log_probability * positive).sum(dim=1) / pairs.clamp(min=1)
    return per_anchor.sum() / (pairs > 0).sum().clamp(min=1)


def entropy(scores: Tensor) -> Tensor:
    """Return the entropy of the softmax of each row of scores."""
    return -(scores.softmax(dim=1) * scores.log_softmax(dim=1)).sum(dim=1)


def soft_cross_entropy(target: Tensor, scores: Tensor) -> Tensor:
    """Return the cross-entropy of each row of scores against target probabilities."""
    return -(target * scores.log_softmax(dim=1)).sum(dim=1)


def symmetric_cross_entropy(target_scores: Tensor, scores: Tensor) -> Tensor:
    """Return the mean of the cross-entropies of each row in both directions."""
    forward = soft_cross_entropy(target_scores.softmax(dim=1), scores)
    backward = soft_cross_entropy(scores.softmax(dim=1), target_scores)
    return 0.5 * (forward + backward)

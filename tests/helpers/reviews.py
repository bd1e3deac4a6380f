"""Made-up reviews whose label follows from a few of their sentences."""

import numpy as np

GOOD = ["A delight from start to end.", "Wonderful acting!", "I would see it again."]
BAD = ["A waste of time.", "Dreadful acting!", "I left before the end."]
NEUTRAL = [
    "It was raining.", "We sat in the third row.", "The film has two parts.",
    "There is a dog in it.", "My brother came along.", "It lasts two hours.",
]  # fmt: skip


def reviews(n, seed=0):
    """Return texts of two to seven sentences, at least one of which tells the label."""
    rng = np.random.RandomState(seed)
    labels = rng.choice(["bad", "good"], size=n)
    texts = []
    for label in labels:
        sentences = list(rng.choice(NEUTRAL, size=rng.randint(1, 6), replace=False))
        telling = GOOD if label == "good" else BAD
        sentences.insert(rng.randint(len(sentences) + 1), str(rng.choice(telling)))
        texts.append(" ".join(sentences))
    return texts, labels

"""A short fit that other processes can import."""

from suwr import SUWRClassifier


def fit_and_predict(X, y, seed):
    """Probabilities of a small model."""
    model = SUWRClassifier(max_epochs=1, hidden_size=4, random_state=seed, device="cpu")
    return model.fit(X, y).predict_proba(X)

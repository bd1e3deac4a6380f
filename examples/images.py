"""Classify digits from a few patches of pixels.

python examples/images.py --output digits.png            # a few minutes
python examples/images.py --output digits.png --quick    # seconds
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from suwr import Patches, SUWRClassifier
from suwr.plots import plot_image_narrative


def main(output: Path, quick: bool = False) -> None:
    """Fit on images of 8 × 8 pixels, and draw the narrative of one of them."""
    mpl.use("Agg")
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    patches = Patches((8, 8), size=2, stride=2)
    settings: dict[str, Any] = (
        {"max_epochs": 1, "training": {"hidden_size": 16}} if quick else {"max_epochs": 60}
    )
    clf = SUWRClassifier(groups=patches, max_steps=8, random_state=0, **settings)
    clf.fit(X_train, y_train)
    print(
        f"accuracy {clf.score(X_test, y_test):.3f} from {clf.cost(X_test).mean():.1f} of "
        f"{len(patches.names)} patches"
    )
    axes = plot_image_narrative(clf.explain(X_test[:1])[0], X_test[0], patches)
    axes[0].figure.savefig(output, dpi=120, bbox_inches="tight")
    print(f"wrote {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("digits.png"))
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    arguments = parser.parse_args()
    main(arguments.output, arguments.quick)

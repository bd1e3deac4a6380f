"""Narratives as a page computes them, to be compared with those of Python."""

from dataclasses import replace
from itertools import pairwise

TOLERANCE = 1e-5

COMPUTE = """() => suwr.data.rows.map((_, i) => {
  const narrative = suwr.computedNarrative(i);
  return {
    units: narrative.steps.map((s) => s.units),
    stops: [narrative.stop, ...narrative.steps.map((s) => s.stop)],
    predictions: [narrative.start, ...narrative.steps.map((s) => s.prediction)],
    ended: narrative.ended, margin: narrative.margin,
    text: suwr.narrativeText(suwr.data, narrative),
  };
})"""


def numbers(narrative):
    states = [(narrative.start_stop_probability, narrative.start)]
    states += [(step.stop_probability, step.prediction) for step in narrative.steps]
    return [stop for stop, _ in states], [prediction for _, prediction in states]


def python_text(narrative, found):
    """Python's wording of the numbers of the page, which may round to another percentage."""
    stops, predictions = found["stops"], [tuple(p) for p in found["predictions"]]
    steps = tuple(
        replace(step, stop_probability=stop, prediction_before=before, prediction=after)
        for step, stop, (before, after) in zip(
            narrative.steps, stops[1:], pairwise(predictions), strict=True
        )
    )
    start, stop = predictions[0], stops[0]
    return replace(narrative, start=start, start_stop_probability=stop, steps=steps).text()

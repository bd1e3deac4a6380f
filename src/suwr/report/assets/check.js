// The self-check: does the embedded model compute what Python computed?

// Python computes with 32-bit floats. Larger differences are errors, and the page must not use the model.
const TOLERANCE = 1e-5;

/** Whether two narratives reveal the same units and end alike. */
function sameDecisions(a, b) {
  const order = (narrative) => JSON.stringify(narrative.steps.map((s) => s.units));
  return order(a) === order(b) && a.ended === b.ended;
}

/** The largest difference of probabilities; NaN if a number is missing. */
function largestDifference(a, b) {
  if (a.length !== b.length || a.includes(null)) return NaN;
  return a.reduce((most, number, i) => Math.max(most, Math.abs(number - b[i])), 0);
}

/** The difference of predictions. Values, transformed as the target, are in units of its scale and, beyond one scale, relative. */
function predictionDifference(output, a, b) {
  if (output.kind === "probabilities") return largestDifference(a, b);
  const transform = TRANSFORMS[output.transform];
  const forward = (v) => (transform && v !== null ? transform.forward(v) : v);
  const [found, expected] = [a.map(forward), b.map(forward)];
  const unit = Math.max(Math.abs(output.scale), Math.abs(expected[0] - output.mean));
  return largestDifference(found, expected) / unit;
}

/**
 * The largest difference to the recorded stop probabilities and predictions, given the same revealed values.
 * This does not depend on which units the model selects, so it also applies to sampled narratives.
 */
function replayDifference(model, data, recorded) {
  const read = (column) => knownValue(model.codes[column], recorded.cell(column));
  const known = new Map(model.start.map((column) => [column, read(column)]));
  const states = [{ prediction: recorded.start, stop: recorded.stop, units: [] }, ...recorded.steps];
  let most = 0;
  states.forEach((state, i) => {
    for (const column of state.units.flatMap((u) => data.units[u].columns)) {
      known.set(column, read(column));
    }
    const found = evaluate(model, known);
    const forced = i + 1 === states.length && recorded.ended !== "decision";
    const stop = forced ? 0 : largestDifference([state.stop], [found.stop]);
    most = Math.max(most, stop, predictionDifference(model.output, state.prediction, found.prediction));
  });
  return most;
}

/** The largest difference to the predictions of Python with all columns revealed. */
function referenceDifference(model) {
  return model.references.reduce((most, { cells, prediction }) => {
    const known = new Map(cells.map((cell, column) => [column, knownValue(model.codes[column], cell)]));
    return Math.max(most, predictionDifference(model.output, prediction, evaluate(model, known).prediction));
  }, 0);
}

/** Compare one recorded row with the model; returns the updated counts. */
function checkRow(model, data, row, counts) {
  const recorded = recordedNarrative(row);
  const computed = runPolicy(model, data, recorded.cell);
  const same = sameDecisions(recorded, computed);
  const tie = !same && computed.margin < TOLERANCE;
  return {
    checked: counts.checked + 1,
    same: counts.same + (same ? 1 : 0),
    ties: counts.ties + (tie ? 1 : 0),
    difference: Math.max(counts.difference, replayDifference(model, data, recorded)),
  };
}

/** Whether the model computes what Python computed. A comparison with NaN is false. */
function agrees(data, { checked, same, ties, difference }) {
  return difference <= TOLERANCE && (data.sampled || same + ties === checked);
}

function checkText(data, counts) {
  const { checked, same, ties, difference } = counts;
  const rows = `${same} of ${checked} recorded rows`;
  const error = Number.isFinite(difference) ? difference.toExponential(0) : "not finite";
  if (!agrees(data, counts)) {
    return `Self-check failed: the model in this page does not agree with Python (${rows} are reproduced; the ` +
      `largest difference is ${error}). This page does not compute predictions; the recorded rows are unaffected.`;
  }
  const numbers = `the largest numerical difference is ${error}`;
  const all = checked === 1 ? "the recorded row" : `all ${checked} recorded rows`;
  if (same === checked) return `Self-check: the model in this page reproduces ${all}; ${numbers}.`;
  const near = ties ? ` (${ties} of the others differ by a near tie)` : "";
  const sampled = data.sampled ? " It takes the most probable action; the recorded rows were sampled." : "";
  return `Self-check: the model in this page reproduces ${rows}${near}; ${numbers}.${sampled}`;
}

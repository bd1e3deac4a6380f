// Numbers and sentences, formatted as by Narrative.text() in Python.

// A category that does not occur in the training data.
const OTHER = Object.freeze({ other: true });

/** Format a number like Python's 'g' format. */
function significant(number, digits) {
  if (number === 0 || !Number.isFinite(number)) return String(number === 0 ? 0 : number);
  const [mantissa, exponent] = number.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power < -4 || power >= digits) {
    const sign = power < 0 ? "-" : "+";
    return `${trim(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return trim(number.toFixed(digits - 1 - power));
}

/** Format a probability; '0 %' and '100 %' are exact. */
function percent(p) {
  if (p > 0 && p < 0.005) return "under 1 %";
  if (p >= 0.995 && p < 1) return "over 99 %";
  return `${(100 * p).toFixed(0)} %`;
}

/** Keep numbers and percent signs on one line. */
const tidy = (text) => text.replaceAll(" %", "\u00a0%");

function labelText(label) {
  if (label === true) return "True";
  if (label === false) return "False";
  return label === null ? "None" : String(label);
}

/** The value of a cell as text. */
function valueText(value) {
  if (value === undefined) return "not yet known";
  if (value === null) return "missing";
  if (value === OTHER) return "any other value";
  if (typeof value === "number" && !Number.isInteger(value)) return significant(value, 6);
  return labelText(value);
}

/** Class numbers, most probable first. */
function ranking(prediction) {
  return prediction.map((_, i) => i).sort((a, b) => prediction[b] - prediction[a] || a - b);
}

function predictionText(prediction, classes) {
  if (classes === null) return significant(prediction[0], 4);
  const ranked = ranking(prediction);
  const shown = ranked.slice(0, 3).map((i) => `${labelText(classes[i])} ${percent(prediction[i])}`);
  return shown.join(", ") + (ranked.length > 3 ? ", …" : "");
}

/** The predicted class or value as text. */
function outcomeText(prediction, classes) {
  return classes === null
    ? significant(prediction[0], 4)
    : labelText(classes[ranking(prediction)[0]]);
}

/** The predicted class with its probability, or the predicted value. */
function verdictText(prediction, classes) {
  const outcome = outcomeText(prediction, classes);
  return classes === null ? outcome : `${outcome} (${percent(Math.max(...prediction))})`;
}

/** 'age is 71', or for a group 'panel: a is 1, b is missing'. */
function readingText(data, units, cell) {
  const parts = units.map((number) => {
    const { name, columns } = data.units[number];
    let facts = columns
      .slice(0, 12)
      .map((c) => `${data.columns[c]} is ${valueText(cell(c))}`)
      .join(", ");
    if (columns.length > 12) facts += `, … (${columns.length} columns)`;
    const alone = columns.length === 1 && data.columns[columns[0]] === name;
    return alone ? facts : `${name}: ${facts}`;
  });
  return parts.join("; ");
}

function stepText(data, narrative, number) {
  const step = narrative.steps[number - 1];
  const before = number === 1 ? narrative.start : narrative.steps[number - 2].prediction;
  return (
    `${readingText(data, step.units, narrative.cell)}. Prediction: ` +
    `${predictionText(before, data.classes)} → ${predictionText(step.prediction, data.classes)}.`
  );
}

function startText(data, narrative) {
  return `Before anything is revealed: ${predictionText(narrative.start, data.classes)}.`;
}

function lastState(narrative) {
  const step = narrative.steps.at(-1);
  return step ?? { prediction: narrative.start, stop: narrative.stop };
}

function endingText(data, narrative) {
  const { prediction, stop } = lastState(narrative);
  const used = narrative.steps.reduce((sum, step) => sum + step.units.length, 0);
  const outcome = outcomeText(prediction, data.classes);
  return [stopText(data, narrative.ended, stop), `Predicted ${outcome} from ${used} of ${data.n_units} features.`];
}

/** Why the rollout stopped, with the stop probability filled in. */
function stopText(data, ended, stop) {
  return data.endings[ended].replace("{stop:.0%}", `${(100 * stop).toFixed(0)}%`);
}

/** The narrative as text. */
function narrativeText(data, narrative) {
  const lines = [`Row ${narrative.label}. ${startText(data, narrative)}`];
  narrative.steps.forEach((_, i) => lines.push(`${i + 1}. ${stepText(data, narrative, i + 1)}`));
  return [...lines, ...endingText(data, narrative)].join("\n");
}

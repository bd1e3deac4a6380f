// Numbers and sentences, in the same words as Narrative.text() in Python.

const ENDINGS = {
  decision: (stop) =>
    `It stopped here (stop probability ${(100 * stop).toFixed(0)}%): more was not worth its price.`,
  budget: () => "It stopped here because the most steps allowed were taken.",
  everything: () => "It stopped here because nothing was left to reveal.",
  open: (stop) => `It has not stopped yet (stop probability ${(100 * stop).toFixed(0)}%).`,
};
// The answer 'something that the model has never seen'.
const OTHER = Object.freeze({ other: true });

/** A number with some significant digits, as Python's 'g' format writes it. */
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

/** A probability without false certainty: never '0 %' or '100 %' unless it is. */
function percent(p) {
  if (p > 0 && p < 0.005) return "under 1 %";
  if (p >= 0.995 && p < 1) return "over 99 %";
  return `${(100 * p).toFixed(0)} %`;
}

/** Keeps a number and its sign on one line. */
const tidy = (text) => text.replaceAll(" %", "\u00a0%");

function labelText(label) {
  if (label === true) return "True";
  if (label === false) return "False";
  return label === null ? "None" : String(label);
}

/** A cell in words. */
function valueText(value) {
  if (value === undefined) return "unknown so far";
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

/** The predicted class or value in words. */
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

function stepText(data, story, number) {
  const step = story.steps[number - 1];
  const before = number === 1 ? story.start : story.steps[number - 2].prediction;
  return (
    `${readingText(data, step.units, story.cell)}. Prediction: ` +
    `${predictionText(before, data.classes)} → ${predictionText(step.prediction, data.classes)}.`
  );
}

function startText(data, story) {
  return `Before anything is revealed: ${predictionText(story.start, data.classes)}.`;
}

function lastState(story) {
  const step = story.steps.at(-1);
  return step ?? { prediction: story.start, stop: story.stop };
}

function endingText(data, story) {
  const { prediction, stop } = lastState(story);
  const used = story.steps.reduce((sum, step) => sum + step.units.length, 0);
  const outcome = outcomeText(prediction, data.classes);
  return [ENDINGS[story.ended](stop), `Predicted ${outcome} from ${used} of ${data.n_units} features.`];
}

/** The narrative in plain sentences. */
function storyText(data, story) {
  const lines = [`Row ${story.label}. ${startText(data, story)}`];
  story.steps.forEach((_, i) => lines.push(`${i + 1}. ${stepText(data, story, i + 1)}`));
  return [...lines, ...endingText(data, story)].join("\n");
}

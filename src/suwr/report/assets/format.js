// Numbers and sentences, formatted as by Narrative.text() in Python.

// Control, bidirectional and invisible characters and lone surrogates, as in suwr._utils.text.
const UNPRINTABLE =
  /[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** A name or value from the data, with unprintable characters shown as escapes. */
function printable(text) {
  return text.replace(UNPRINTABLE, (character) => {
    const number = character.codePointAt(0);
    const [letter, width] = number < 0x100 ? ["x", 2] : number < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${number.toString(16).padStart(width, "0")}`;
  });
}

/** The first digits of a positive number and its power of ten; ties are rounded to even, as in Python. */
function roundedDigits(number, digits) {
  const read = (text) => [text.split("e")[0].replace(".", ""), Number(text.split("e")[1])];
  const [exact, exponent] = read(number.toExponential(100));
  const tie = /^50*$/.test(exact.slice(digits));
  if (tie && Number(exact[digits - 1]) % 2 === 0) return [exact.slice(0, digits), exponent];
  return read(number.toExponential(digits - 1));
}

/** Separate the thousands of a number of at least five digits before the point. */
function grouped(text) {
  const [, sign, whole, rest] = text.match(/^(-?)(\d+)(.*)$/);
  if (whole.length < 5) return text;
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

/** Format a number as suwr._utils.text.format_number does. */
function significant(number, digits) {
  if (number === 0 || !Number.isFinite(number)) return String(number === 0 ? 0 : number);
  const [shown, power] = roundedDigits(Math.abs(number), digits);
  const sign = number < 0 ? "-" : "";
  const point = (place) => `${shown.slice(0, place)}.${shown.slice(place)}`.replace(/\.?0*$/, "");
  if (power < -4 || power >= 15) {
    return `${sign}${point(1)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${shown}`.replace(/0+$/, "");
  if (power >= digits) return sign + grouped(shown + "0".repeat(power + 1 - digits));
  return sign + grouped(point(power + 1));
}

/** Format a probability; '0 %' and '100 %' are exact. */
function percent(p) {
  if (p > 1e-6 && p < 0.005) return "under 1 %";
  if (p >= 0.995 && p < 1 - 1e-6) return "over 99 %";
  return `${(100 * p).toFixed(0)} %`;
}

/** A class label and its probability, in parentheses if the label ends in a digit. */
function percentOf(label, p) {
  return /[0-9]$/.test(label) ? `${label} (${percent(p)})` : `${label} ${percent(p)}`;
}

/** Keep numbers and percent signs on one line. */
const tidy = (text) => text.replaceAll(" %", "\u00a0%");

function labelText(label) {
  if (label === true) return "True";
  if (label === false) return "False";
  return label === null ? "None" : printable(String(label));
}

/** The value of a cell as text. */
function valueText(value) {
  if (value === undefined) return "not yet known";
  if (value === null) return "missing";
  if (value === OTHER) return "any other value";
  // Larger integers are not exact.
  if (typeof value === "number" && !Number.isSafeInteger(value)) return significant(value, 6);
  return typeof value === "number" ? grouped(String(value)) : labelText(value);
}

/** Class numbers, most probable first. */
function ranking(prediction) {
  return prediction.map((_, i) => i).sort((a, b) => prediction[b] - prediction[a] || a - b);
}

function predictionText(prediction, classes) {
  if (classes === null) return significant(prediction[0], 4);
  const ranked = ranking(prediction);
  const shown = ranked.slice(0, 3).map((i) => percentOf(labelText(classes[i]), prediction[i]));
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

/** The displayed predictions before and after a step. */
function changeText(data, narrative, number) {
  const before = number === 1 ? narrative.start : narrative.steps[number - 2].prediction;
  return [before, narrative.steps[number - 1].prediction].map((p) => predictionText(p, data.classes));
}

function stepText(data, narrative, number) {
  const reading = readingText(data, narrative.steps[number - 1].units, narrative.cell);
  const [before, after] = changeText(data, narrative, number);
  if (before === after) return `${reading}. This step changes nothing: prediction ${after}.`;
  return `${reading}. Prediction: ${before} → ${after}.`;
}

/** One line per step; consecutive steps that change no displayed number share one. */
function stepLines(data, narrative) {
  const lines = [];
  for (let first = 1; first <= narrative.steps.length; first += 1) {
    let last = first;
    const unchanged = (n) => n <= narrative.steps.length && new Set(changeText(data, narrative, n)).size === 1;
    while (unchanged(first) && unchanged(last + 1)) last += 1;
    if (last === first) {
      lines.push(`${first}. ${stepText(data, narrative, first)}`);
      continue;
    }
    const facts = narrative.steps.slice(first - 1, last).map((s) => readingText(data, s.units, narrative.cell));
    const after = changeText(data, narrative, last)[1];
    lines.push(
      `${first}–${last}. ${facts.join("; ")}. These ${facts.length} steps change nothing: prediction ${after}.`
    );
    first = last;
  }
  return lines;
}

function startText(data, narrative) {
  const before = narrative.n_known ? "Before anything else is revealed" : "Before anything is revealed";
  const text = `${before}: ${predictionText(narrative.start, data.classes)}.`;
  return [...(narrative.given ?? []), text].join(" ");
}

function lastState(narrative) {
  const step = narrative.steps.at(-1);
  return step ?? { prediction: narrative.start, stop: narrative.stop };
}

function endingText(data, narrative) {
  const { prediction, stop } = lastState(narrative);
  const used = narrative.steps.reduce((sum, step) => sum + step.units.length, 0);
  const outcome = outcomeText(prediction, data.classes);
  const known = narrative.n_known ? ` and ${narrative.n_known} known in advance` : "";
  const n = narrative.steps.length;
  const visits = data.visits ? ` in ${n} ${n === 1 ? "visit" : "visits"}` : "";
  const lines = [
    stopText(data, narrative.ended, stop),
    `Predicted ${outcome} from ${used} of ${data.n_units} features${known}${visits}.`,
  ];
  return narrative.comparison === undefined ? lines : [...lines, narrative.comparison];
}

/** Why the rollout stopped, with the stop probability filled in: neither 0 nor 1, however it is rounded. */
function stopText(data, ended, stop) {
  return data.endings[ended].replace("{stop}", percent(Math.min(Math.max(stop, 0.001), 0.999)));
}

/** The narrative as text. */
function narrativeText(data, narrative) {
  const lines = [`Row ${labelText(narrative.label)}. ${startText(data, narrative)}`];
  const certificate = data.certificate && narrative.ended !== "open" ? [data.certificate] : [];
  const ending = [...endingText(data, narrative), ...certificate];
  return [...lines, ...stepLines(data, narrative), ...ending].join("\n");
}

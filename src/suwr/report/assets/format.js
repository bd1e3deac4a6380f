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
  const ranked = ranking(prediction).filter((i, place) => place === 0 || prediction[i] >= 0.005);
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

/** The predictions before and after a step. */
function changeOf(narrative, number) {
  const before = number === 1 ? narrative.start : narrative.steps[number - 2].prediction;
  return [before, narrative.steps[number - 1].prediction];
}

/** What a step speaks for or against, as Narrative.says; '' if neither. */
function saysText(data, narrative, number) {
  const final = lastState(narrative).prediction;
  const place = data.classes === null ? 0 : ranking(final)[0];
  const shown = (p) => (data.classes === null ? predictionText(p, null) : percent(p[place]));
  const change = changeOf(narrative, number);
  if (shown(change[0]) === shown(change[1])) return "";
  const rises = change[1][place] > change[0][place];
  if (data.classes !== null) return `speaks ${rises ? "for" : "against"} ${labelText(data.classes[place])}`;
  if (shown(narrative.start) === shown(final)) return "";
  const higher = final[0] > narrative.start[0];
  return `speaks ${rises === higher ? "for" : "against"} a ${higher ? "higher" : "lower"} value`;
}

/** How often steps usually move the prediction, of those of which it is known; '' if it is of none. */
function usualText(data, steps, they) {
  const known = steps.map((step) => step.usual).filter((usual) => usual);
  if (known.length === 0) return "";
  const [moved, rows] = [0, 1].map((i) => known.reduce((sum, usual) => sum + usual[i], 0));
  const cases = `${percent(moved / rows)} of ${rows.toLocaleString("en-US")} such cases`;
  return `${they} the prediction by over ${data.movement} in ${cases}`;
}

/** The units that the policy might as well have chosen. */
function alternativesText(data, { alternatives = [] }) {
  const labels = new Map(data.units.map((unit) => [unit.key, unit.name]));
  return alternatives.map((name) => labels.get(name) ?? printable(name)).join(" or ");
}

/** Steps from one number to another: a single one, or several that change no displayed number. */
function stepText(data, narrative, first, last = first) {
  const steps = narrative.steps.slice(first - 1, last);
  const facts = steps.map((step) => readingText(data, step.units, narrative.cell)).join("; ");
  if (first === last && !isIdle(data, narrative, first)) {
    const says = saysText(data, narrative, first) || "prediction";
    const after = predictionText(steps[0].prediction, data.classes);
    return `${facts}. ${says[0].toUpperCase()}${says.slice(1)}: ${after}.`;
  }
  const [those, they] = first === last
    ? ["This step changes", "it moves"] : [`These ${steps.length} steps change`, "they move"];
  const usual = usualText(data, steps, they);
  return `${facts}. ${those} nothing${usual && "; "}${usual}.`;
}

/** Whether a step changes no displayed number. */
function isIdle(data, narrative, number) {
  return new Set(changeOf(narrative, number).map((p) => predictionText(p, data.classes))).size === 1;
}

/** One line per step; consecutive steps that change no displayed number share one. */
function stepLines(data, narrative) {
  const lines = [];
  const n = narrative.steps.length;
  for (let first = 1; first <= n; first += 1) {
    let last = first;
    const idle = isIdle(data, narrative, first);
    while (idle && last < n && isIdle(data, narrative, last + 1)) last += 1;
    lines.push(`${first === last ? first : `${first}–${last}`}. ${stepText(data, narrative, first, last)}`);
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

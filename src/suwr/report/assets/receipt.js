// Verification of receipts: the model in the page replays every decision from the revealed values alone.

const MAX_RECEIPT = 4 * 2 ** 20;
const MAX_RECEIPT_FILE = 64 * 2 ** 20;
const MAX_DEPTH = 64;
const RECEIPT_FIELDS = {
  receipt: ["format", "version", "environment", "model", "condition", "row", "given", "classes", "n_units",
    "start_stop_probability", "start", "steps", "ended", "near_ties", "answer", "certificate", "sha256"],
  step: ["reveals", "stop_probability", "prediction_before", "prediction"],
  reveal: ["unit", "columns", "values"],
  given: ["known", "unavailable", "max_cost", "exactly"],
};

/** An error whose message says why a receipt is refused. */
class Refusal extends Error {}

function expect(condition, message) {
  if (!condition) throw new Refusal(message);
}

/** Canonical JSON, as in suwr.narrative.reading. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

const equal = (a, b) => canonical(a) === canonical(b);

function countKeys(value) {
  if (value === null || typeof value !== "object") return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, part) => sum + countKeys(part), own);
}

/** How deeply the brackets of JSON without its strings are nested. */
function depthOf(marks) {
  let depth = 0;
  let most = 0;
  for (const mark of marks) {
    if (mark === "[" || mark === "{") most = Math.max(most, ++depth);
    else if (mark === "]" || mark === "}") depth--;
  }
  return most;
}

function expectFields(value, kind) {
  const known = RECEIPT_FIELDS[kind];
  const plain = value !== null && typeof value === "object" && !Array.isArray(value);
  expect(plain && equal(Object.keys(value).sort(), [...known].sort()), `A ${kind} has missing or unknown fields.`);
}

/** Whether the digest of a receipt is that of its other fields; null if this browser computes no digests here. */
async function digestMatches({ sha256: digest, ...fields }) {
  if (!globalThis.crypto?.subtle) return null;
  const body = new TextEncoder().encode(canonical(fields));
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
  return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("") === digest;
}

/** Parse a receipt; a Refusal says what is wrong with the text. */
async function readReceipt(text) {
  expect(text.length <= MAX_RECEIPT, "It is too long for a receipt.");
  const marks = text.replace(/"(?:[^"\\]|\\.)*"/g, "");
  expect(depthOf(marks) <= MAX_DEPTH, "It is nested too deeply.");
  let receipt;
  try {
    receipt = JSON.parse(text);
  } catch {
    throw new Refusal("It is not JSON.");
  }
  expectFields(receipt, "receipt");
  expect(receipt.format === 3, "Its format is that of another version of suwr.");
  expect(marks.split(":").length - 1 === countKeys(receipt), "It has a key twice.");
  expect([receipt.steps, receipt.start, receipt.near_ties].every(Array.isArray), "Its steps are not lists.");
  let before = receipt.start;
  for (const step of receipt.steps) {
    expectFields(step, "step");
    expect(equal(step.prediction_before, before), "A prediction is not the one before the next step.");
    before = step.prediction;
    expect(Array.isArray(before) && Array.isArray(step.reveals) && step.reveals.length > 0, "A step is not complete.");
    step.reveals.forEach((reveal) => expectFields(reveal, "reveal"));
  }
  const numbers = [receipt.start, ...receipt.steps.map((step) => step.prediction)].flat();
  const stops = [receipt.start_stop_probability, ...receipt.steps.map((step) => step.stop_probability)];
  expect([...numbers, ...stops].every(Number.isFinite), "A prediction is not a number.");
  const answer = receipt.classes === null ? before[0] : receipt.classes[ranking(before)[0]];
  expect(equal(answer, receipt.answer), "Its answer is not that of its last prediction.");
  const matches = await digestMatches(receipt);
  expect(matches !== false, "It was altered, or has integers beyond 2^53: its digest does not match its content.");
  return { ...receipt, digestChecked: matches === true };
}

/** Whether a value has the form of its column: parsed, it is itself. */
function wellFormed(code, value) {
  if (value === null) return true;
  const types = { number: "number", boolean: "boolean", text: "string", "numeric category": "number" };
  if (typeof value !== types[code.type]) return false;
  if (code.type === "numeric category" && Number.isInteger(value) && !Number.isSafeInteger(value)) return false;
  return knownValue(code, value) === value;
}

/** The values that a receipt starts from, by column; it must start from what the model always knows. */
function startValues(model, data, { given }) {
  if (model.start.length === 0 && given === null) return new Map();
  const known = given?.known ?? {};
  const names = model.start.map((column) => data.receipts.columns[column]);
  const usual = equal(Object.keys(known).sort(), [...names].sort());
  expect(usual, "It starts from other known values than the rows of this page.");
  expectFields(given, "given");
  const free = equal(given.unavailable, []) && given.max_cost === null && given.exactly === false;
  expect(free, "It has limits that this page cannot replay.");
  return new Map(model.start.map((column, i) => {
    const value = known[names[i]];
    const formed = wellFormed(model.codes[column], value);
    expect(formed, `The value of ${data.columns[column]} does not have the form of its column.`);
    return [column, value];
  }));
}

/** The revealed values by column, the units of each step, and the first step that is not one of the model. */
function revealedValues(model, data, receipt) {
  const values = startValues(model, data, receipt);
  const order = [];
  let problem = null;
  receipt.steps.forEach((step, i) => {
    order.push(step.reveals.map(({ unit, columns, values: given }) => {
      const number = data.receipts.units.indexOf(unit);
      const own = number < 0 ? null : data.units[number].columns;
      if (!own || !equal(columns, own.map((c) => data.receipts.columns[c])) || given?.length !== own.length) {
        problem ??= [i + 1, `the model has no unit ${JSON.stringify(unit)} with these columns.`];
        return -1;
      }
      own.forEach((column, j) => {
        const consistent = !values.has(column) || values.get(column) === given[j];
        if (!consistent || !wellFormed(model.codes[column], given[j])) {
          problem ??= [i + 1, `the value of ${data.columns[column]} does not have the form of its column.`];
        } else values.set(column, given[j]);
      });
      return number;
    }));
  });
  return { values, order, problem };
}

/** Replay a receipt: `verified`, or the step at which it differs and how. */
function replayReceipt(model, data, receipt) {
  const { values, order, problem } = revealedValues(model, data, receipt);
  const computed = runPolicy(model, data, (column) => values.get(column));
  const near = computed.margin < TOLERANCE;
  const differs = (step, reason) => ({ verified: false, step, reason, near });
  const given = [[receipt.start_stop_probability, receipt.start],
    ...receipt.steps.map((step) => [step.stop_probability, step.prediction])];
  const found = [computed, ...computed.steps];
  const names = (units) => units.map((u) => `reveals ${data.units[u]?.name ?? "an unknown unit"}`).join(" and ") || "stops";
  for (let i = 0; i < given.length; i++) {
    if (problem !== null && problem[0] === i) return differs(...problem);
    const [stop, prediction] = given[i];
    const expected = i === 0 ? computed.start : found[i].prediction;
    const difference = Math.max(largestDifference([stop], [found[i].stop]), predictionDifference(model.output, prediction, expected));
    if (!(difference <= TOLERANCE)) return differs(i, "the stop probability or the prediction is another one.");
    const taken = computed.steps[i]?.units ?? computed.asking?.units ?? [];
    const claimed = order[i] ?? [];
    if (!equal(taken, claimed)) {
      const tie = near ? " A decision is within rounding of a tie." : "";
      return differs(i + 1, `the policy ${names(taken)}, the receipt ${names(claimed)}.${tie}`);
    }
  }
  if (computed.ended !== receipt.ended) return differs(receipt.steps.length, "the rollout ended for another reason.");
  const narrative = { ...computed, label: receipt.row };
  return { verified: true, step: null, reason: "", near: near || receipt.near_ties.length > 0, narrative };
}

/** Verify the text of a receipt with the model of the page. */
async function verifyReceipt(model, data, text) {
  let receipt = null;
  try {
    receipt = await readReceipt(text.trimEnd());
    const facts = data.receipts;
    expect(receipt.model === facts.model, "It is a receipt of another model: the digests of the model files differ.");
    expect(receipt.condition === facts.condition, "Its sparsity weight is not that of the model in this page.");
    expect(equal(receipt.classes, facts.classes) && receipt.n_units === data.n_units,
      "Its classes or its number of units are not those of the model.");
    // A certificate is for rows that start from nothing.
    const certificate = receipt.given === null ? facts.certificate : null;
    expect(equal(receipt.certificate, certificate), "Its certificate is not that of the model.");
    return { receipt, ...replayReceipt(model, data, receipt) };
  } catch (error) {
    // Values of unexpected types raise other errors.
    const reason = error instanceof Refusal ? error.message : "It is not a receipt.";
    return { receipt, verified: false, step: null, reason, near: false };
  }
}

function verificationText({ verified, step, reason }) {
  if (verified) return "verified";
  if (step === null) return `refused. ${reason}`;
  return `differs ${step === 0 ? "before the first step" : `at step ${step}`}: ${reason}`;
}

// The panel with the results.

const MAX_RESULTS = 20;

/** Elements that show the results of one file; there is at least one result. */
function verificationPanel(data, name, results, close) {
  const failed = results.filter((result) => !result.verified);
  const ok = failed.length === 0;
  const one = results.length === 1 ? results[0] : null;
  const title = ok ? "Verified" : "Not verified";
  const near = results.filter((result) => result.near).length;
  const unchecked = results.some(({ receipt }) => receipt !== null && !receipt.digestChecked);
  const shown = (one ? [] : failed.slice(0, MAX_RESULTS)).map((result) =>
    el("li", {}, `Line ${results.indexOf(result) + 1}: ${verificationText(result)}`));
  if (failed.length > MAX_RESULTS) shown.push(el("li", {}, `… and ${failed.length - MAX_RESULTS} more.`));
  const sentence = one
    ? one.verified
      ? "The model in this page takes the same decisions from the revealed values alone."
      : `The receipt ${one.step === null ? "is " : ""}${verificationText(one)}`
    : `${results.length - failed.length} of ${results.length} receipts are verified.`;
  return [
    el("h2", { class: ok ? "verified" : "refused" }, el("span", { "aria-hidden": "true" }, ok ? "✓ " : "✗ "),
      `${title}: `, el("strong", {}, printable(name))),
    el("p", {}, sentence),
    near ? el("p", {}, "A decision is within rounding of a tie: another platform may decide differently.") : null,
    unchecked ? el("p", {}, "This browser could not check the digest of the text.") : null,
    shown.length > 0 ? el("ul", {}, shown) : null,
    one?.verified ? el("pre", {}, narrativeText(data, one.narrative)) : null,
    el("div", { class: "buttons" }, el("button", { type: "button", onclick: close }, "Close")),
  ].filter((node) => node !== null);
}

/** The texts of the receipts in a file: one, or one per line of a .jsonl file. */
async function receiptTexts(file) {
  if (file.size > MAX_RECEIPT_FILE) return null;
  const text = await file.text();
  return /\.jsonl$/i.test(file.name) ? text.split("\n").filter((line) => line.trim() !== "") : [text];
}

/** Verify files that the reader chooses or drops; `getModel` returns null if the page does not run its model. */
function listenForReceipts(data, getModel, { button, input, panel }) {
  const close = () => panel.replaceChildren() ?? (panel.hidden = true);
  const show = (children) => {
    panel.hidden = false;
    panel.replaceChildren(...children);
    panel.scrollIntoView({ block: "nearest" });
  };
  const verifyFile = async (file) => {
    const model = getModel();
    if (model === null) return;
    const texts = await receiptTexts(file);
    const results = [];
    for (const text of texts ?? []) {
      results.push(await verifyReceipt(model, data, text));
      // Let the page respond while a long file is verified.
      if (results.length % 50 === 0) await new Promise((resolve) => { setTimeout(resolve); });
    }
    if (results.length === 0) {
      const reason = texts === null ? "The file is too large for this page." : "The file has no receipts.";
      results.push({ receipt: null, verified: false, step: null, reason, near: false });
    }
    show(verificationPanel(data, file.name, results, close));
  };
  button.hidden = false;
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    if (input.files.length > 0) verifyFile(input.files[0]);
    input.value = "";
  });
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    verifyFile(event.dataTransfer.files[0]);
  });
}

// The list of rows: search, filters and sorting.

const ROWS_AT_ONCE = 100;
// Parts of the rows, ordered by their errors from the smallest.
const ERROR_SHARES = [
  { value: "", text: "any", low: 0, high: 1 },
  { value: "tenth", text: "largest 10 %", low: 0.9, high: 1 },
  { value: "large", text: "larger half", low: 0.5, high: 1 },
  { value: "small", text: "smaller half", low: 0, high: 0.5 },
];

/** Numbers of the rows within a part of all rows, ordered by their errors; null for all of them. */
function rowsByError(data, choice) {
  if (choice === "") return null;
  const { low, high } = ERROR_SHARES.find(({ value }) => value === choice);
  const order = data.rows.map((_, i) => i).sort((a, b) => absoluteError(data.rows[a]) - absoluteError(data.rows[b]) || a - b);
  return new Set(order.slice(Math.floor(low * order.length), Math.floor(high * order.length)));
}

/** The searchable text of a row, in lower case. */
function searchText(data, row) {
  const narrative = recordedNarrative(row);
  const facts = narrative.steps.map((step) => readingText(data, step.units, narrative.cell, false));
  const { prediction } = lastState(narrative);
  const truth = row.truth === undefined ? "" : labelText(row.truth);
  return [row.label, outcomeText(prediction, data.classes), truth, ...facts].join("\n").toLowerCase();
}

function makeFilters(data, form, onChange) {
  const controls = {};
  const add = (name, node) => {
    controls[name] = node.matches("input, select") ? node : node.querySelector("input, select");
    form.append(node);
  };
  add("search", el("label", { class: "wide" }, el("span", {}, "Search"),
    el("input", { type: "search", placeholder: "rows, features, values" })));
  if (data.classes !== null) {
    const options = data.classes.map((label, k) => [k, labelText(label)]);
    add("outcome", dropDown("Predicted", [["", "any class"], ...options]));
  }
  const used = new Set(data.rows.flatMap((row) => row.steps.flatMap(([units]) => units)));
  const units = data.units.map((unit, u) => [u, unit.name]).filter(([u]) => used.has(u));
  add("unit", dropDown("Using", [["", "any feature"], ...units]));
  const lengths = [...new Set(data.rows.map((row) => row.steps.length))].sort((a, b) => a - b);
  add("length", dropDown("Steps", [["", "any number"], ...lengths.map((n) => [n, String(n)])]));
  if (data.rows[0].correct !== undefined) {
    add("correct", dropDown("Correct", [["", "any"], ["true", "correct"], ["false", "wrong"]]));
  }
  const errors = data.classes === null && data.rows.every((row) => absoluteError(row) !== undefined);
  if (errors) add("error", dropDown("Error", ERROR_SHARES.map(({ value, text }) => [value, text])));
  const orders = [["given", "original order"], ["short", "fewest steps"], ["long", "most steps"]];
  if (data.classes !== null) orders.push(["uncertain", "least certain"], ["certain", "most certain"]);
  if (errors) orders.push(["far", "largest error"], ["near", "smallest error"]);
  add("order", dropDown("Sort by", orders));
  form.addEventListener("input", onChange);
  form.addEventListener("submit", (event) => event.preventDefault());
  return controls;
}

/** Numbers of the rows that pass the filters, sorted. */
function filterRows(data, controls, texts) {
  const value = (name) => controls[name]?.value ?? "";
  const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
  const certainty = (row) => Math.max(...finalPrediction(row));
  const errors = rowsByError(data, value("error"));
  const kept = data.rows.map((_, i) => i).filter((i) => {
    const row = data.rows[i];
    if (value("outcome") !== "" && ranking(finalPrediction(row))[0] !== Number(value("outcome"))) return false;
    if (value("length") !== "" && row.steps.length !== Number(value("length"))) return false;
    if (value("correct") !== "" && String(row.correct) !== value("correct")) return false;
    if (value("unit") !== "" && !row.steps.some(([units]) => units.includes(Number(value("unit"))))) return false;
    if (errors !== null && !errors.has(i)) return false;
    if (words.length === 0) return true;
    texts[i] ??= searchText(data, row);
    return words.every((word) => texts[i].includes(word));
  });
  const keys = {
    short: (row) => row.steps.length,
    long: (row) => -row.steps.length,
    uncertain: certainty,
    certain: (row) => -certainty(row),
    far: (row) => -absoluteError(row),
    near: (row) => absoluteError(row),
  };
  const key = keys[value("order")];
  return key ? kept.sort((a, b) => key(data.rows[a]) - key(data.rows[b]) || a - b) : kept;
}

function rowButton(data, number, onChoose) {
  const row = data.rows[number];
  const prediction = finalPrediction(row);
  const best = ranking(prediction)[0];
  const chance = data.classes === null ? null : el("span", { class: "number" }, percent(prediction[best]));
  const wrong = row.correct === false ? el("span", { class: "wrong" }, "wrong") : null;
  const steps = `${row.steps.length} ${row.steps.length === 1 ? "step" : "steps"}`;
  return el(
    "li",
    {},
    el(
      "button",
      { type: "button", "data-row": number, onclick: () => onChoose(number) },
      el("span", { class: "label" }, labelText(row.label)),
      el("span", { class: `dot k${data.classes === null ? 0 : best % 8}`, "aria-hidden": "true" }),
      el("span", { class: "outcome" }, outcomeText(prediction, data.classes)),
      chance,
      el("span", { class: "length" }, steps),
      wrong
    )
  );
}

// The summary of many rows: how often features are used, when rows stop, and how good predictions are.

const MAX_SUMMARY_UNITS = 20;

const finalPrediction = (row, limit = Infinity) => {
  const last = Math.min(limit, row.steps.length);
  return last > 0 ? row.steps[last - 1][2] : row.start;
};

/** The absolute error of a predicted value; undefined if the truth is not a number. */
function absoluteError(row, limit = Infinity) {
  return typeof row.truth === "number" ? Math.abs(finalPrediction(row, limit)[0] - row.truth) : undefined;
}

/** Share of rows and mean position of every used unit, the most used first. */
function unitUsage(data, rows) {
  const found = new Map();
  for (const row of rows) {
    row.steps.forEach(([units], i) => {
      for (const unit of units) found.set(unit, [...(found.get(unit) ?? []), i + 1]);
    });
  }
  return [...found]
    .map(([unit, positions]) => ({
      unit,
      share: positions.length / rows.length,
      position: positions.reduce((sum, p) => sum + p, 0) / positions.length,
    }))
    .sort((a, b) => b.share - a.share || a.position - b.position || a.unit - b.unit);
}

/** Share of the rows that stop after each number of steps. */
function stepCounts(rows) {
  const counts = Array(Math.max(...rows.map((row) => row.steps.length)) + 1).fill(0);
  for (const row of rows) counts[row.steps.length] += 1;
  return counts.map((count) => count / rows.length);
}

/** Accuracy, or mean absolute error, if every row stopped after at most so many steps; null without truths. */
function qualityByLimit(data, rows) {
  const limits = stepCounts(rows).map((_, limit) => limit);
  const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
  if (data.classes === null) {
    if (rows.some((row) => absoluteError(row) === undefined)) return null;
    return limits.map((limit) => mean(rows.map((row) => absoluteError(row, limit))));
  }
  if (rows.some((row) => row.correct === undefined)) return null;
  const correct = (row, limit) => ranking(finalPrediction(row, limit))[0] === row.truth_class;
  return limits.map((limit) => mean(rows.map((row) => (correct(row, limit) ? 1 : 0))));
}

/** A list of bars: [label, fraction of the longest bar, number, note]. */
function barList(name, items) {
  const lines = items.map(([label, part, number, note]) =>
    el("li", {},
      el("span", { class: "name", title: label }, label),
      el("span", { class: "track", "aria-hidden": "true" },
        el("span", { class: "bar k0", style: { width: `${100 * Math.min(1, Math.max(0, part))}%` } })),
      el("span", { class: "number" }, tidy(number), note ? el("small", {}, note) : null)));
  return el("ul", { class: "bars summary-bars", "aria-label": name }, lines);
}

const stepsText = (n) => `${n} ${n === 1 ? "step" : "steps"}`;

/** The cards of the summary of the rows with these numbers. */
function summaryCards(data, numbers) {
  const rows = numbers.map((number) => data.rows[number]);
  const heading = el("div", { class: "heading" },
    el("h2", {}, "Summary of ", el("strong", {}, `${rows.length} of ${data.rows.length} rows`)),
    el("p", {}, "The rows that pass the search and the filters."));
  if (rows.length === 0) return [heading];
  const card = (title, hint, content) =>
    el("section", { class: "card", "aria-label": title }, el("h3", {}, title), hint ? el("p", { class: "hint" }, hint) : null, content);
  const usage = unitUsage(data, rows);
  const shown = usage.slice(0, MAX_SUMMARY_UNITS).map(({ unit, share, position }) =>
    [data.units[unit].name, share, percent(share), `mean step ${position.toFixed(1)}`]);
  const hint = usage.length > shown.length ? `The ${shown.length} most used of ${usage.length} features.` : null;
  const cards = [heading, card("Rows that use a feature", hint, shown.length
    ? barList("Rows that use a feature", shown) : el("p", {}, "No row reveals a feature."))];
  const counts = stepCounts(rows);
  cards.push(card("When rows stop", null, barList("When rows stop",
    counts.map((share, n) => [stepsText(n), share / Math.max(...counts), percent(share)]))));
  const quality = qualityByLimit(data, rows);
  if (quality === null) return cards;
  const title = data.classes === null ? "Mean absolute error by number of steps" : "Accuracy by number of steps";
  const text = data.classes === null ? (v) => significant(v, 4) : percent;
  const longest = data.classes === null ? Math.max(...quality) || 1 : 1;
  cards.push(card(title, "If every row stopped after at most so many steps.", barList(title,
    quality.map((value, n) => [stepsText(n), value / longest, text(value)]))));
  return cards;
}

// The parts of the panel that shows one narrative.

const MAX_OPEN_FIELDS = 4;
const ENTER_NUMBER = "Please enter a number, or leave empty if it is missing.";

/** Input fields for columns; without a model, their values as text. The names of `alone` are not shown. */
function columnFields(data, model, narrative, { alone, columns }, keyOf, onEdit, original) {
  return columns.map((column) => {
    const value = narrative.cell(column);
    const label = data.columns[column];
    const note = noteText(data, column, value, columns.length <= MAX_POSITIONS);
    const about = note && !data.image ? el("small", { class: "about" }, tidy(note)) : null;
    if (!model) {
      return el("span", { class: "cell" }, alone ? "" : `${label}: `, cellText(data, column, value), about);
    }
    const key = keyOf(column);
    const field = cellField(data, column, model.codes[column], value, {
      "data-key": key,
      onchange: () => {
        const read = field.read();
        problem.textContent = read === undefined ? ENTER_NUMBER : "";
        if (read !== undefined) onEdit(new Map([[column, read]]), key);
      },
    });
    const problem = el("small", { class: "error", role: "alert" });
    const was = original?.(column);
    const changed = was !== undefined && was !== value;
    return el(
      "span",
      { class: changed ? "cell changed" : "cell" },
      alone ? null : el("span", { class: "column", "aria-hidden": "true" }, label),
      field.node,
      unitLabel(data, column),
      problem,
      changed ? el("small", {}, `was ${cellText(data, column, was)}`) : null,
      about
    );
  });
}

/** Input fields for the columns of a unit; without a model, their values as text. */
function unitFields(data, model, narrative, unit, onEdit, original) {
  const { columns } = data.units[unit];
  const keyOf = (column) => `${unit}-${column}`;
  const fields = columnFields(data, model, narrative, data.units[unit], keyOf, onEdit, original);
  const group = cellGroup(data, unit, fields);
  if (columns.length <= MAX_OPEN_FIELDS) return group;
  return el("details", { "data-open": unit }, el("summary", {}, `${columns.length} values`), group);
}

/** The unit of measurement after a field. */
function unitLabel(data, column) {
  const { unit } = described(data, column);
  return unit === undefined ? null : el("span", { class: "column", "aria-hidden": "true" }, printable(unit));
}

/** Fields side by side; those of a patch are arranged like its pixels. */
function cellGroup(data, unit, fields) {
  if (!data.image || unit === undefined) return el("div", { class: "cells" }, fields);
  const { width } = unitFrame(data, unit);
  return el("div", { class: "cells patch-cells", style: { "--columns": width * (data.image[2] ?? 1) } }, fields);
}

/** The values that are known at the start; null if rows start from nothing. */
function startCard(data, model, narrative, actions) {
  if (!model || model.start.length === 0) return null;
  const known = { alone: false, columns: model.start };
  const keyOf = (column) => `start-${column}`;
  return el("section", { class: "card", "aria-label": "Known at the start" }, el("h3", {}, "Known at the start"),
    el("div", { class: "cells" },
      columnFields(data, model, narrative, known, keyOf, actions.edit, actions.original)));
}

/** Why a unit is asked for, and what might be asked instead; null if neither is known. */
function outlookNote(data, step, served) {
  const usual = usualText(data, [step], "Moves");
  const others = alternativesText(data, step);
  const parts = [usual && `${usual}.`, others && `${others} ${served}.`].filter((part) => part);
  return parts.length > 0 ? el("small", { class: "about" }, tidy(parts.join(" "))) : null;
}

/** One line of the list of steps. */
function stepItem(data, model, narrative, number, now, actions) {
  const step = narrative.steps[number - 1];
  const current = number === now;
  const best = ranking(step.prediction)[0];
  const says = saysText(data, narrative, number);
  return el(
    "li",
    { class: current ? "current" : number > now ? "later" : null },
    el(
      "button",
      {
        type: "button", class: "number", onclick: () => actions.go(number),
        "aria-label": `Go to step ${number}`, "aria-current": current ? "step" : null,
      },
      String(number)
    ),
    el(
      "div",
      { class: "what" },
      step.units.map((unit) => [
        el("span", { class: "unit" }, data.units[unit].name),
        unitFields(data, model, narrative, unit, actions.edit, actions.original),
      ]),
      outlookNote(data, step, "would have served as well")
    ),
    el(
      "div",
      { class: "then" },
      el("span", { class: `dot k${data.classes === null ? 0 : best % 8}`, "aria-hidden": "true" }),
      el("span", {}, verdictText(step.prediction, data.classes)),
      says ? el("small", {}, `${says.startsWith("speaks for") ? "▲" : "▼"} ${says}`) : null,
      el("small", {}, `stop ${percent(step.stop)}`)
    )
  );
}

/** The form that asks for the units that the policy selects next, or first for what is known at the start. */
function questionForm(data, model, narrative, actions) {
  const { units, columns } = narrative.asking;
  const names = units.map((unit) => data.units[unit].name).join(" and ");
  const fields = columns.map((column) => cellField(data, column, model.codes[column], undefined, {}));
  const plain = units.length === 1 && data.units[units[0]].alone;
  const hint = el("p", { class: "hint", role: "alert" });
  const submit = (event) => {
    event.preventDefault();
    const values = fields.map((field) => field.read());
    const open = values.findIndex((value) => value === undefined);
    if (open >= 0) {
      hint.textContent = fields[open].node.matches("select")
        ? "Please choose a value, or 'missing'."
        : ENTER_NUMBER;
      fields[open].node.focus();
      return;
    }
    actions.answer(new Map(columns.map((column, i) => [column, values[i]])));
  };
  return el(
    "form",
    { class: "card question", onsubmit: submit, "aria-label": "Question" },
    units.length > 0
      ? el("p", {}, `Question ${narrative.steps.length + 1}. What is `, el("strong", {}, names), "?")
      : el("p", {}, "What is ", el("strong", {}, "known at the start"), "?"),
    outlookNote(data, narrative.asking, "would serve as well"),
    cellGroup(data, units[0], fields.map((field, i) =>
      el("span", { class: "cell" },
        plain ? null : el("span", { class: "column", "aria-hidden": "true" }, data.columns[columns[i]]),
        field.node,
        unitLabel(data, columns[i])))),
    el(
      "div",
      { class: "buttons" },
      el("button", { type: "submit", class: "primary" }, "Answer"),
      el("button", {
        type: "button", onclick: () => actions.answer(new Map(columns.map((column) => [column, null]))),
      }, "Missing"),
      el("button", { type: "button", disabled: !actions.canUndo, onclick: actions.undo }, "Undo")
    ),
    hint
  );
}

/** The reader's changes and their effect on the prediction. */
function changesNote(data, narrative, recorded, changes, actions) {
  const name = (column) => data.columns[column];
  const listed = [...changes].slice(0, 3).map(([column, value]) =>
    `${name(column)} ${cellText(data, column, recorded.cell(column))} → ${cellText(data, column, value)}`);
  if (changes.size > 3) listed.push(`and ${changes.size - 3} more`);
  const result = (s) => {
    const { prediction } = lastState(s);
    const n = s.steps.length;
    return tidy(`${predictionText(prediction, data.classes)} after ${n} ${n === 1 ? "step" : "steps"}`);
  };
  return el(
    "div",
    { class: "card note" },
    el("p", {}, el("strong", {}, "You changed "), listed.join("; "), "."),
    el("p", {}, `Recorded: ${result(recorded)}. `, el("strong", {}, `Now: ${result(narrative)}.`)),
    el(
      "div",
      { class: "buttons" },
      el("button", { type: "button", onclick: actions.undo }, "Undo"),
      el("button", { type: "button", onclick: actions.reset }, "Restore the recorded row")
    )
  );
}

function stepperButtons(narrative, step, go) {
  const last = narrative.steps.length;
  const button = (text, label, target, disabled) =>
    el("button", { type: "button", "aria-label": label, title: label, disabled, onclick: () => go(target) }, text);
  return el(
    "div",
    { class: "stepper", role: "group", "aria-label": "Steps" },
    button("«", "First step", 0, step === 0),
    button("‹", "Previous step", step - 1, step === 0),
    el("span", { class: "where" }, step === 0 ? "Start" : `Step ${step} of ${last}`),
    button("›", "Next step", step + 1, step === last),
    button("»", "Last step", last, step === last)
  );
}

/** The brightness of the brush for drawing on the image. */
function brushControls(brush, range, onChange) {
  const slider = el("input", {
    type: "range", min: range.low, max: range.high, step: (range.high - range.low) / 16, value: brush,
    oninput: () => onChange(Number(slider.value)),
  });
  return el("label", { class: "brush" }, el("span", {}, "Draw with"), "light", slider, "dark");
}

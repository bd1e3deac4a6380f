// The application: its state, rendering and event handling.

const data = readData(byId("data").textContent);
const main = byId("narrative");
const range = data.image ? pixelRange(data) : null;
const texts = [];
const state = { row: 0, step: 0, history: [], showHidden: false, brush: range?.high, shown: ROWS_AT_ONCE,
  summary: false };
let unpacked = null;
let visible = [];

/** The data of the page, with the display names of columns and units, made printable. */
function readData(text) {
  const read = JSON.parse(text);
  if (read.receipts) {
    // Receipts have the names as they are.
    read.receipts.columns = [...read.columns];
    read.receipts.units = read.units.map((unit) => unit.name);
  }
  for (const unit of read.units) {
    unit.alone = unit.columns.length === 1 && read.columns[unit.columns[0]] === unit.name;
    unit.patch = unit.label !== undefined;
    const label = unit.alone ? read.descriptions[unit.columns[0]]?.label : unit.label;
    unit.key = unit.name;
    unit.name = printable(label ?? unit.name);
  }
  read.names = read.columns.map(printable);
  read.columns = read.columns.map((name, c) => printable(read.descriptions[c]?.label ?? name));
  return read;
}

/** The model, decoded on first use; null if the page has none. */
function getModel() {
  if (unpacked === null && data.model !== null) unpacked = unpackModel(data.model);
  return unpacked;
}

// Narratives. Changes are a stack of maps from columns to values; later ones take precedence.

const changes = () => new Map(state.history.flatMap((change) => [...change]));

function currentNarrative() {
  const changed = changes();
  const row = state.row === null ? null : data.rows[state.row];
  if (row !== null && changed.size === 0) return recordedNarrative(row);
  const cell = (column) => (changed.has(column) ? changed.get(column) : row?.cells[column]);
  return { label: row === null ? "new case" : row.label, ...runPolicy(getModel(), data, cell) };
}

function computedNarrative(number) {
  const row = data.rows[number];
  return { label: row.label, ...runPolicy(getModel(), data, (column) => row.cells[column]) };
}

/** Stop using the model, because it does not agree with Python, and show the recorded rows only. */
function disableModel() {
  data.model = null;
  unpacked = null;
  byId("blank").hidden = true;
  byId("verify").hidden = true;
  if (state.row === null || state.history.length > 0) choose(state.row ?? 0);
  else render();
}

// Actions.

function choose(row) {
  state.summary = false;
  state.row = row;
  state.history = [];
  state.step = Infinity;
  if (matchMedia("(max-width: 52rem)").matches) byId("rows").open = false;
  render();
  markCurrent();
}

function showSummary() {
  state.summary = true;
  state.history = [];
  render();
  markCurrent();
}

function go(step) {
  state.step = step;
  render();
}

function change(map, key) {
  const { cell } = currentNarrative();
  const real = [...map].filter(([column, value]) => cell(column) !== value);
  if (real.length > 0) state.history.push(new Map(real));
  state.step = Infinity;
  render(key);
}

function undo() {
  state.history.pop();
  state.step = Infinity;
  render(state.row === null ? "question" : null);
}

function reset() {
  state.history = [];
  state.step = Infinity;
  render();
}

// The panel.

function render(focusKey = null) {
  if (state.summary) {
    main.replaceChildren(...summaryCards(data, visible));
    return;
  }
  const narrative = currentNarrative();
  state.step = Math.max(0, Math.min(state.step, narrative.steps.length));
  const opened = [...main.querySelectorAll("details[data-open][open]")].map((d) => d.dataset.open);
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  const again = focused?.getAttribute("aria-label");
  main.replaceChildren(...panel(narrative));
  for (const details of main.querySelectorAll("details[data-open]")) {
    details.open = opened.includes(details.dataset.open);
  }
  restoreFocus(focusKey, again, focused !== null);
}

function restoreFocus(key, label, wasInside) {
  const find = (test) => [...main.querySelectorAll("button, input, select, summary")].find(test);
  let target = null;
  if (key === "question") target = main.querySelector(".question input, .question select");
  else if (key) target = find((node) => node.dataset.key === key);
  else if (label) target = find((node) => node.getAttribute("aria-label") === label && !node.disabled);
  if (target) target.focus({ preventScroll: true });
  else if (wasInside || key) main.focus({ preventScroll: true });
}

function panel(narrative) {
  const { step } = state;
  const { model } = data;
  const recorded = state.row === null ? null : recordedNarrative(data.rows[state.row]);
  const edited = recorded !== null && state.history.length > 0;
  const actions = {
    go,
    edit: change,
    original: edited ? recorded.cell : null,
    answer: (map) => change(map, "question"),
    undo,
    reset,
    canUndo: state.history.length > 0,
  };
  if (narrative.start === null) return [startHeading(), questionForm(data, model, narrative, actions)];
  const width = Math.max(280, Math.min(main.clientWidth - 34, 1000));
  const parts = [heading(narrative)];
  if (edited) parts.push(changesNote(data, narrative, recorded, changes(), actions));
  if (narrative.asking) parts.push(questionForm(data, model, narrative, actions));
  parts.push(stepperButtons(narrative, step, go), narration(narrative));
  const now = el("section", { class: "card now-card", "aria-label": "Prediction at this step" },
    el("h3", {}, "Prediction"), predictionBars(data, narrative, step));
  parts.push(data.image ? el("div", { class: "side" }, imageCard(narrative, model), now) : now);
  const known = startCard(data, model, narrative, actions);
  if (known) parts.push(known);
  parts.push(
    el("section", { class: "card", "aria-label": "Chart" }, el("h3", {}, "Step by step"),
      progressChart(data, narrative, step, width, edited ? recorded : null, go),
      edited ? el("p", { class: "hint" }, "Dotted: the recorded row.") : null),
    el("section", { class: "card", "aria-label": "Steps" }, el("h3", {}, "Revealed features"),
      model ? el("p", { class: "hint" }, "Change a value to run the model again.") : null,
      el("ol", { class: "steps" }, narrative.steps.map((_, i) => stepItem(data, model, narrative, i + 1, step, actions)))),
    el("details", { class: "card words", "data-open": "words" }, el("summary", {}, "As text"),
      el("pre", {}, narrativeText(data, narrative)))
  );
  if (state.row === null && !narrative.asking) {
    parts.splice(1, 0, el("div", { class: "card note", role: "status" },
      el("p", {}, el("strong", {}, "The model has stopped asking. "), endingText(data, narrative).join(" ")),
      el("div", { class: "buttons" },
        el("button", { type: "button", onclick: undo }, "Undo"),
        el("button", { type: "button", onclick: reset }, "Start again"))));
  }
  return parts;
}

/** The heading of a new case before what is known at the start was entered. */
function startHeading() {
  return el("div", { class: "heading" }, el("h2", {}, "New case"),
    el("p", {}, "The model was trained to know some features at the start."));
}

function heading(narrative) {
  const { prediction } = lastState(narrative);
  const title = state.row === null ? "New case" : `Row ${labelText(narrative.label)}`;
  const row = state.row === null ? null : data.rows[state.row];
  const truth = row?.truth === undefined ? null
    : el("p", { class: row.correct === false ? "truth wrong" : "truth" }, `Truth: ${valueText(row.truth)}`);
  const sentence = narrative.asking
    ? "The model asks for one feature at a time. It uses your answers only."
    : [...(narrative.given ?? []), ...endingText(data, narrative)].join(" ");
  return el("div", { class: "heading" },
    el("h2", {}, `${title}: `, el("strong", {}, verdictText(prediction, data.classes))),
    truth,
    el("p", {}, sentence));
}

/** The text of the current step; screen readers announce it when it changes. */
function narration(narrative) {
  const text = state.step === 0 ? startText(data, narrative) : stepText(data, narrative, state.step);
  announce(state.step === 0 ? text : `Step ${state.step}. ${text}`);
  return el("p", { class: "sentence" }, tidy(text));
}

const live = el("div", { class: "announcement", role: "status", "aria-live": "polite" });
document.body.append(live);
function announce(text) {
  if (live.textContent !== text) live.textContent = text;
}

function imageCard(narrative, model) {
  const shade = () => pixelColour(Array(data.image[2] ?? 1).fill(state.brush), range);
  const paint = model && {
    colour: shade,
    done: (columns) => change(new Map(columns.map((column) => [column, state.brush]))),
  };
  const hidden = data.hidden_values && state.row !== null
    ? el("label", { class: "check" },
        el("input", {
          type: "checkbox", "aria-label": "Show hidden pixels", checked: state.showHidden,
          onchange: (event) => { state.showHidden = event.target.checked; render(); },
        }), "Show hidden pixels")
    : null;
  return el("section", { class: "card image-card", "aria-label": "Image" },
    imageView(data, narrative, state.step, range, state.showHidden, paint),
    hidden,
    model ? brushControls(state.brush, range, (value) => { state.brush = value; }) : null);
}

// The list.

function renderList() {
  const list = byId("list");
  list.replaceChildren(...visible.slice(0, state.shown).map((number) => rowButton(data, number, choose)));
  byId("count").textContent = `${visible.length} of ${data.rows.length} rows`;
  byId("more").hidden = visible.length <= state.shown;
  markCurrent();
}

function markCurrent() {
  byId("list").querySelectorAll("[aria-current]").forEach((b) => b.removeAttribute("aria-current"));
  byId("overview").setAttribute("aria-current", String(state.summary));
  byId("blank").setAttribute("aria-current", String(!state.summary && state.row === null));
  if (state.summary) return;
  byId("list").querySelector(`[data-row="${state.row}"]`)?.setAttribute("aria-current", "true");
}

/** Choose the next or the previous row of the list; the first one if the current row is not in it. */
function moveInList(by) {
  const inList = byId("list").contains(document.activeElement);
  const at = visible.indexOf(inList ? Number(document.activeElement.dataset.row) : state.row);
  const target = at < 0 || state.summary ? 0 : Math.max(0, Math.min(visible.length - 1, at + by));
  if (visible.length === 0) return;
  if (target >= state.shown) {
    state.shown += ROWS_AT_ONCE;
    renderList();
  }
  choose(visible[target]);
  const button = byId("list").querySelector(`[data-row="${visible[target]}"]`);
  if (inList) button.focus();
  else button.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.matches("input, select, textarea")) return;
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const upwards = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (sideways && !state.summary) go(state.step + sideways);
  else if (upwards) moveInList(upwards);
  else return;
  event.preventDefault();
});

// Header, footer and start-up.

function summaryText() {
  const n = data.rows.length;
  const used = data.rows.reduce((sum, row) => sum + row.steps.reduce((s, [units]) => s + units.length, 0), 0);
  const average = (used / n).toFixed(1);
  return `${n} ${n === 1 ? "row" : "rows"}, ${average} of ${data.n_units} features used on average. ` +
    "Every decision uses revealed values only.";
}

function fillFooter() {
  const contents = [`${data.rows.length} narratives`];
  if (data.hidden_values) contents.push("complete rows, including values that the model did not use");
  if (data.model) contents.push("the model");
  const listed = contents.length > 1 ? `${contents.slice(0, -1).join(", ")} and ${contents.at(-1)}` : contents[0];
  byId("footer").append(
    el("p", {}, `This file contains ${listed}. It makes no network requests. ${data.without_model}`),
    ...(data.certificate ? [el("p", { id: "certificate" }, data.certificate)] : []),
    el("p", { id: "check", role: "status" }),
    el("p", {}, "Keys: ← and → move through the steps, ↑ and ↓ through the rows. ",
      `Created by suwr ${data.version}.`)
  );
}

/** Show the result of the self-check, in red and above the narrative too if the model is not used. */
function reportCheck(counts) {
  const text = checkText(data, counts);
  byId("check").textContent = text;
  if (agrees(data, counts)) return;
  byId("check").className = "disagreement";
  document.querySelector("header").append(el("p", { class: "disagreement", role: "alert" }, text));
  disableModel();
}

/** Compare the model with Python: the reference rows at once, the recorded rows in idle time. */
function checkModel() {
  const model = getModel();
  let counts = { checked: 0, same: 0, ties: 0, difference: referenceDifference(model) };
  if (!agrees(data, counts)) {
    reportCheck(counts);
    return;
  }
  const work = () => {
    const until = performance.now() + 12;
    while (counts.checked < data.rows.length && performance.now() < until) {
      counts = checkRow(model, data, data.rows[counts.checked], counts);
    }
    if (counts.checked < data.rows.length && agrees(data, counts)) setTimeout(work, 30);
    else reportCheck(counts);
  };
  byId("check").textContent = "Self-check: comparing the model in this page with Python …";
  setTimeout(work, 300);
}

function start() {
  byId("summary").textContent = summaryText();
  const controls = makeFilters(data, byId("filters"), () => {
    state.shown = ROWS_AT_ONCE;
    visible = filterRows(data, controls, texts);
    renderList();
    if (state.summary) render();
  });
  byId("more").addEventListener("click", () => {
    state.shown += ROWS_AT_ONCE;
    renderList();
  });
  byId("overview").hidden = data.rows.length < 2;
  byId("overview").addEventListener("click", showSummary);
  if (data.model) {
    byId("blank").hidden = false;
    byId("blank").addEventListener("click", () => {
      if (!data.model) return;
      choose(null);
      render("question");
    });
  }
  if (data.model && data.receipts) {
    listenForReceipts(data, () => (data.model ? getModel() : null),
      { button: byId("verify"), input: byId("receipts"), panel: byId("verification") });
  }
  visible = filterRows(data, controls, texts);
  choose(0);
  renderList();
  fillFooter();
  let drawn = null;
  new ResizeObserver(([{ contentRect }]) => {
    drawn ??= contentRect.width;
    if (Math.abs(contentRect.width - drawn) < 8) return;
    drawn = contentRect.width;
    render();
  }).observe(main);
  if (data.model) checkModel();
  // For the browser console and for tests.
  globalThis.suwr = {
    data, getModel, computedNarrative, recordedNarrative, narrativeText, significant, percent, unpackModel, forward,
    parseCell, printable, valueText, verifyReceipt: (text) => verifyReceipt(getModel(), data, text),
    isInvalid: (value) => value === INVALID,
    run: (cells) => ({ label: "new case", ...runPolicy(getModel(), data, (column) => cells[column]) }),
  };
  document.documentElement.dataset.ready = "true";
  // After the first complete frame.
  requestAnimationFrame(() => setTimeout(() => performance.mark("suwr-shown")));
}

start();

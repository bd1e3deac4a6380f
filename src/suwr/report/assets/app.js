// Putting it together: what is chosen, what was changed, what is on the screen.

const data = JSON.parse(byId("data").textContent);
const main = byId("story");
const range = data.image ? pixelRange(data) : null;
const texts = [];
const state = { row: 0, step: 0, history: [], showHidden: false, brush: range?.high, shown: ROWS_AT_ONCE };
let unpacked = null;
let visible = [];

/** The model, unpacked when it is first needed; null where the page has none. */
function getModel() {
  if (unpacked === null && data.model !== null) unpacked = unpackModel(data.model);
  return unpacked;
}

// Stories. Changes are a stack of maps from columns to values; the latest counts.

const changes = () => new Map(state.history.flatMap((change) => [...change]));

function currentStory() {
  const changed = changes();
  const row = state.row === null ? null : data.rows[state.row];
  if (row !== null && changed.size === 0) return recordedStory(row);
  const cell = (column) => (changed.has(column) ? changed.get(column) : row?.cells[column]);
  return { label: row === null ? "asked" : row.label, ...runPolicy(getModel(), data, cell) };
}

function liveStory(number) {
  const row = data.rows[number];
  return { label: row.label, ...runPolicy(getModel(), data, (column) => row.cells[column]) };
}

// What the reader does.

function choose(row) {
  state.row = row;
  state.history = [];
  state.step = Infinity;
  if (matchMedia("(max-width: 52rem)").matches) byId("rows").open = false;
  render();
  markCurrent();
}

function go(step) {
  state.step = step;
  render();
}

function change(map, key) {
  const { cell } = currentStory();
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
  const story = currentStory();
  state.step = Math.max(0, Math.min(state.step, story.steps.length));
  const opened = [...main.querySelectorAll("details[data-open][open]")].map((d) => d.dataset.open);
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  const again = focused?.getAttribute("aria-label");
  main.replaceChildren(...panel(story));
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

function panel(story) {
  const { step } = state;
  const { model } = data;
  const recorded = state.row === null ? null : recordedStory(data.rows[state.row]);
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
  const width = Math.max(280, Math.min(main.clientWidth - 34, 1000));
  const parts = [heading(story)];
  if (edited) parts.push(changesNote(data, story, recorded, changes(), actions));
  if (story.asking) parts.push(questionForm(data, model, story, actions));
  parts.push(stepperButtons(story, step, go), narration(story));
  const now = el("section", { class: "card now-card", "aria-label": "Prediction at this step" },
    el("h3", {}, "Prediction"), predictionBars(data, story, step));
  parts.push(data.image ? el("div", { class: "side" }, imageCard(story, model), now) : now);
  parts.push(
    el("section", { class: "card", "aria-label": "Chart" }, el("h3", {}, "Step by step"),
      progressChart(data, story, step, width, edited ? recorded : null, go),
      edited ? el("p", { class: "hint" }, "Dotted: the row as it was recorded.") : null),
    el("section", { class: "card", "aria-label": "Steps" }, el("h3", {}, "What was revealed"),
      model ? el("p", { class: "hint" }, "Change a value and the model tells the story anew.") : null,
      el("ol", { class: "steps" }, story.steps.map((_, i) => stepItem(data, model, story, i + 1, step, actions)))),
    el("details", { class: "card words", "data-open": "words" }, el("summary", {}, "In words"),
      el("pre", {}, storyText(data, story)))
  );
  if (state.row === null && !story.asking) {
    parts.splice(1, 0, el("div", { class: "card note", role: "status" },
      el("p", {}, el("strong", {}, "The model has enough. "), endingText(data, story).join(" ")),
      el("div", { class: "buttons" },
        el("button", { type: "button", onclick: undo }, "Undo"),
        el("button", { type: "button", onclick: reset }, "Start again"))));
  }
  return parts;
}

function heading(story) {
  const { prediction } = lastState(story);
  const title = state.row === null ? "Start from nothing" : `Row ${labelText(story.label)}`;
  const row = state.row === null ? null : data.rows[state.row];
  const truth = row?.truth === undefined ? null
    : el("p", { class: row.right === false ? "truth wrong" : "truth" }, `Truth: ${valueText(row.truth)}`);
  const sentence = story.asking
    ? "The model asks for what it wants to know next, and decides from your answers alone."
    : endingText(data, story).join(" ");
  return el("div", { class: "heading" },
    el("h2", {}, `${title}: `, el("strong", {}, verdictText(prediction, data.classes))),
    truth,
    el("p", {}, sentence));
}

/** The sentence of the present step; screen readers hear it when it changes. */
function narration(story) {
  const text = state.step === 0 ? startText(data, story) : stepText(data, story, state.step);
  announce(state.step === 0 ? text : `Step ${state.step}. ${text}`);
  return el("p", { class: "sentence" }, tidy(text));
}

const live = el("div", { class: "heard", role: "status", "aria-live": "polite" });
document.body.append(live);
function announce(text) {
  if (live.textContent !== text) live.textContent = text;
}

function imageCard(story, model) {
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
    imageView(data, story, state.step, range, state.showHidden, paint),
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
  byId("list").querySelector(`[data-row="${state.row}"]`)?.setAttribute("aria-current", "true");
  byId("blank").setAttribute("aria-current", String(state.row === null));
}

function moveInList(by) {
  const buttons = [...byId("list").querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  if (at < 0) return false;
  const target = buttons[Math.max(0, Math.min(buttons.length - 1, at + by))];
  target.focus();
  choose(Number(target.dataset.row));
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.matches("input, select, textarea")) return;
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const upwards = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (sideways) go(state.step + sideways);
  else if (!upwards || !moveInList(upwards)) return;
  event.preventDefault();
});

// Around it.

function summaryText() {
  const n = data.rows.length;
  const used = data.rows.reduce((sum, row) => sum + row.steps.reduce((s, [units]) => s + units.length, 0), 0);
  const average = (used / n).toFixed(1);
  return `${n} ${n === 1 ? "row" : "rows"}, ${average} of ${data.n_units} features used on average. ` +
    "Each decision reads only what is already revealed.";
}

function fillFooter() {
  const held = [`${data.rows.length} narratives`];
  if (data.hidden_values) held.push("all values of their rows (also those that the model did not look at)");
  if (data.model) held.push("the model itself");
  const listed = held.length > 1 ? `${held.slice(0, -1).join(", ")} and ${held.at(-1)}` : held[0];
  byId("footer").append(
    el("p", {}, `This file holds ${listed}. It sends nothing anywhere. ${data.without_model}`),
    el("p", { id: "check", role: "status" }),
    el("p", {}, "Keys: ← and → step through a narrative, ↑ and ↓ go through the rows. ",
      `Made by suwr ${data.version}.`)
  );
}

/** Tell the recorded rows again in idle time, and say whether the page's model agrees. */
function checkModel(limit = 200) {
  const total = Math.min(limit, data.rows.length);
  const scale = data.model.output.scale ?? 1;
  const counts = { same: 0, difference: 0, ties: 0 };
  let next = 0;
  const work = () => {
    const until = performance.now() + 12;
    while (next < total && performance.now() < until) {
      const story = liveStory(next);
      const { same, difference } = compareStories(recordedStory(data.rows[next]), story);
      counts.same += same ? 1 : 0;
      counts.ties += !same && story.margin < 1e-5 ? 1 : 0;
      counts.difference = Math.max(counts.difference, difference / scale);
      next += 1;
    }
    if (next < total) setTimeout(work, 30);
    else byId("check").textContent = checkText(counts, total);
  };
  setTimeout(work, 300);
}

function checkText({ same, difference, ties }, total) {
  const apart = `numbers at most ${difference.toExponential(0)} apart`;
  if (same === total) return `Checked here: the model in this page tells all ${total} rows as Python did, ${apart}.`;
  const near = ties ? `, ${ties} of the others by a near tie` : "";
  return `Checked here: the model in this page tells ${same} of ${total} rows as they were recorded${near}, ${apart}. ` +
    "It takes the most probable choice; recorded rows may have been drawn at random.";
}

function start() {
  byId("summary").textContent = summaryText();
  const controls = makeFilters(data, byId("filters"), () => {
    state.shown = ROWS_AT_ONCE;
    visible = filterRows(data, controls, texts);
    renderList();
  });
  byId("more").addEventListener("click", () => {
    state.shown += ROWS_AT_ONCE;
    renderList();
  });
  if (data.model) {
    byId("blank").hidden = false;
    byId("blank").addEventListener("click", () => { choose(null); render("question"); });
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
  // For readers with a console, and for tests.
  globalThis.suwr = {
    data, getModel, liveStory, recordedStory, compareStories, storyText, significant, percent, unpackModel,
    forward,
    run: (cells) => ({ label: "asked", ...runPolicy(getModel(), data, (column) => cells[column]) }),
  };
  document.documentElement.dataset.ready = "true";
  // Right after the frame in which all of it is on the screen.
  requestAnimationFrame(() => setTimeout(() => performance.mark("suwr-shown")));
}

start();

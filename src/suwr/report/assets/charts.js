// Charts of one narrative: predictions and stop probabilities by step.

const MAX_LINES = 5;
const MAX_BARS = 12;

const statesOf = (narrative) => [{ prediction: narrative.start, stop: narrative.stop }, ...narrative.steps];

/** About four round values for an axis. */
function axisTicks(low, high) {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push(i * step);
  return ticks;
}

function valueScale(data, narratives) {
  if (data.classes !== null) {
    return { low: 0, high: 1, ticks: [0, 0.5, 1], text: (p) => `${Math.round(100 * p)} %` };
  }
  const values = narratives.flatMap((s) => statesOf(s).map((state) => state.prediction[0]));
  const least = Math.min(...values);
  const most = Math.max(...values);
  const room = 0.1 * (most - least) || Math.abs(most) * 0.1 || 1;
  const [low, high] = [least - room, most + room];
  return { low, high, ticks: axisTicks(low, high), text: (v) => significant(v, 4) };
}

/** Classes drawn in colour: those with the highest probability at any step. */
function notableClasses(data, narrative) {
  if (data.classes === null) return [0];
  const peak = data.classes.map((_, k) => Math.max(...statesOf(narrative).map((s) => s.prediction[k])));
  return ranking(peak).slice(0, MAX_LINES);
}

/** Positions of labels at the ends of lines, moved apart so that they do not overlap. */
function spreadLabels(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const placed = [...wanted];
  let floor = low;
  for (const i of order) {
    placed[i] = Math.max(wanted[i], floor);
    floor = placed[i] + gap;
  }
  let ceiling = high;
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i], ceiling);
    ceiling = placed[i] - gap;
  }
  return placed;
}

/** Predictions by step, and stop probabilities below them. `ghost` is a second narrative, dotted. */
function progressChart(data, narrative, step, width, ghost, onStep) {
  const states = statesOf(narrative);
  const longest = Math.max(states.length, ghost ? ghost.steps.length + 1 : 0, 2);
  const box = { left: 46, right: Math.min(130, width * 0.28), top: 12, bottom: 190, stop: 222, end: 272 };
  const scale = valueScale(data, ghost ? [narrative, ghost] : [narrative]);
  const x = (i) => box.left + 8 + ((width - box.left - box.right - 16) * i) / (longest - 1);
  const y = (v) => box.bottom - ((box.bottom - box.top) * (v - scale.low)) / (scale.high - scale.low);
  const names = stepNames(data, narrative, longest);
  // Room for slanted names.
  const height = 300 + (data.image ? 0 : 4.5 * Math.min(16, Math.max(...names.map((name) => name.length))));
  const stopY = (p) => box.end - (box.end - box.stop) * p;
  const path = (list, k) =>
    list.map((s, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(s.prediction[k]).toFixed(1)}`).join("");
  const chart = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, class: "chart", role: "img",
    "aria-label": chartSummary(data, narrative),
  });
  for (const tick of scale.ticks) {
    chart.append(
      svg("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "tick", x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, scale.text(tick))
    );
  }
  chart.append(
    svg("rect", { class: "now", x: x(step) - 9, y: box.top - 6, width: 18, height: box.end - box.top + 6, rx: 5 }),
    svg("line", { class: "grid", x1: box.left, x2: width - box.right, y1: box.end, y2: box.end }),
    svg("line", { class: "half", x1: box.left, x2: width - box.right, y1: stopY(0.5), y2: stopY(0.5) }),
    svg("text", { class: "tick", x: box.left - 6, y: stopY(0.5) + 4, "text-anchor": "end" }, "50 %"),
    svg("text", { class: "tick", x: width - box.right + 8, y: stopY(0.5) - 2 }, "stop"),
    svg("text", { class: "tick", x: width - box.right + 8, y: stopY(0.5) + 12 }, "probability")
  );
  states.forEach((state, i) => {
    const top = stopY(state.stop);
    chart.append(
      svg("rect", {
        class: `stop${state.stop >= 0.5 ? " enough" : ""}${i > step ? " later" : ""}`,
        x: x(i) - 5, y: Math.min(top, box.end - 1), width: 10, height: Math.max(box.end - top, 1),
      })
    );
  });
  drawTicks(chart, names, x, box.end + 16, width);
  const notable = notableClasses(data, narrative);
  const plain = data.classes === null ? [] : data.classes.map((_, k) => k).filter((k) => !notable.includes(k));
  for (const k of plain) chart.append(svg("path", { class: "line other", d: path(states, k) }));
  for (const k of notable) {
    if (ghost) chart.append(svg("path", { class: `line ghost k${k % 8}`, d: path(statesOf(ghost), k) }));
    chart.append(
      svg("path", { class: `line later k${k % 8}`, d: path(states, k) }),
      svg("path", { class: `line k${k % 8}`, d: path(states.slice(0, step + 1), k) })
    );
    states.forEach((state, i) => {
      const point = { cx: x(i), cy: y(state.prediction[k]), r: i === step ? 4.5 : 3 };
      chart.append(svg("circle", { ...point, class: `point k${k % 8}${i > step ? " later" : ""}` }));
    });
  }
  drawLabels(chart, data, states.at(-1), notable, x(states.length - 1), y, box);
  states.forEach((_, i) => {
    const half = (x(1) - x(0)) / 2;
    const area = { x: x(i) - half, y: 0, width: 2 * half, height };
    chart.append(svg("rect", { ...area, class: "hit", onclick: () => onStep(i) }));
  });
  return chart;
}

/** The names of the features that each step reveals; patches are numbered, as in the image. */
function stepNames(data, narrative, count) {
  return Array.from({ length: count }, (_, i) => {
    if (i === 0) return "start";
    const units = narrative.steps[i - 1]?.units;
    return data.image || units === undefined ? String(i) : units.map((u) => data.units[u].name).join(" + ");
  });
}

/** Tick labels below the chart; names are slanted and shortened. */
function drawTicks(chart, names, x, y, width) {
  const slanted = names.some((name, i) => i > 0 && name !== String(i));
  const gap = slanted ? 18 : 45;
  const every = Math.ceil((names.length * gap) / Math.max(4 * gap, width - 60));
  names.forEach((name, i) => {
    if (i % every !== 0) return;
    const short = name.length > 16 ? `${name.slice(0, 15)}…` : name;
    const place = i > 0 && name !== String(i)
      ? { transform: `translate(${x(i) + 4} ${y - 3}) rotate(-38)`, "text-anchor": "end" }
      : { x: x(i), y, "text-anchor": "middle" };
    chart.append(svg("text", { class: "tick", ...place }, short, svg("title", {}, name)));
  });
}

function drawLabels(chart, data, state, notable, right, y, box) {
  if (data.classes === null) return;
  const wanted = notable.map((k) => y(state.prediction[k]) + 4);
  const placed = spreadLabels(wanted, 14, box.top + 4, box.bottom + 4);
  const room = Math.floor((box.right - 14) / 8);
  notable.forEach((k, i) => {
    const name = labelText(data.classes[k]);
    const short = name.length > room ? `${name.slice(0, room - 1)}…` : name;
    chart.append(
      svg("text", { class: `name k${k % 8}`, x: right + 10, y: placed[i] }, short, svg("title", {}, name))
    );
  });
}

function chartSummary(data, narrative) {
  const parts = statesOf(narrative).map(
    (state, i) => `${i === 0 ? "start" : `step ${i}`}: ${predictionText(state.prediction, data.classes)}`
  );
  return `Prediction after each step. ${parts.join("; ")}.`;
}

/** The prediction at one step as bars; a tick marks the probability before the step. */
function predictionBars(data, narrative, step) {
  const states = statesOf(narrative);
  const { prediction } = states[step];
  const before = step > 0 ? states[step - 1].prediction : null;
  if (data.classes === null) {
    const was = before ? ` (was ${significant(before[0], 4)})` : "";
    return el("p", { class: "value" }, el("strong", {}, significant(prediction[0], 4)), was);
  }
  const best = ranking(prediction);
  const shown = prediction.length <= MAX_BARS ? prediction.map((_, k) => k) : best.slice(0, MAX_BARS);
  const items = shown.map((k) =>
    el(
      "li",
      { class: k === best[0] ? "best" : null },
      el("span", { class: "name", title: labelText(data.classes[k]) }, labelText(data.classes[k])),
      el(
        "span",
        { class: "track", "aria-hidden": "true" },
        el("span", { class: `bar k${k % 8}`, style: { width: `${100 * prediction[k]}%` } }),
        before ? el("span", { class: "before", style: { left: `${100 * before[k]}%` } }) : null
      ),
      el("span", { class: "number" }, percent(prediction[k]))
    )
  );
  if (shown.length < prediction.length) {
    items.push(el("li", { class: "rest" }, `and ${prediction.length - shown.length} more classes`));
  }
  return el("ul", { class: "bars", "aria-label": "Prediction" }, items);
}

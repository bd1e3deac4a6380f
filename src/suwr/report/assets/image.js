// Images: revealed patches, those of the current step in red and earlier ones in blue.

/** Smallest and largest pixel value of all rows, drawn as white and black. */
function pixelRange(data) {
  let low = Infinity;
  let high = -Infinity;
  for (const row of data.rows) {
    for (const value of Object.values(row.cells)) {
      if (typeof value !== "number") continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low < high ? { low, high } : { low: 0, high: 1 };
}

/** The colour of a pixel: dark on light for one channel, RGB for three. */
function pixelColour(values, { low, high }) {
  const part = (v) => Math.min(1, Math.max(0, (Number(v) - low) / (high - low)));
  if (values.some((v) => v === null || v === undefined)) return null;
  const byte = (p) => Math.round(255 * p);
  if (values.length === 3) return `rgb(${values.map((v) => byte(part(v))).join(" ")})`;
  const grey = byte(1 - part(values[0]));
  return `rgb(${grey} ${grey} ${grey})`;
}

/** The rectangle around the columns of a unit, in pixels. */
function unitFrame(data, unit) {
  const [, width, channels = 1] = data.image;
  const pixels = data.units[unit].columns.map((c) => Math.floor(c / channels));
  const xs = pixels.map((p) => p % width);
  const ys = pixels.map((p) => Math.floor(p / width));
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  return { left, top, width: Math.max(...xs) - left + 1, height: Math.max(...ys) - top + 1 };
}

/**
 * The image at one step. With `showHidden`, hidden pixels are drawn faintly; with `paint`, the reader
 * can draw on revealed pixels.
 */
function imageView(data, narrative, step, range, showHidden, paint) {
  const [height, width, channels = 1] = data.image;
  const shown = new Set(narrative.steps.slice(0, step).flatMap((s) => s.units.flatMap((u) => data.units[u].columns)));
  const picture = svg("svg", {
    viewBox: `-0.3 -0.3 ${width + 0.6} ${height + 0.6}`,
    class: paint ? "image paintable" : "image",
    role: "img",
    "aria-label": `${shown.size / channels} of ${height * width} pixels are revealed.`,
  });
  for (let p = 0; p < height * width; p++) {
    const columns = Array.from({ length: channels }, (_, i) => p * channels + i);
    const revealed = columns.every((c) => shown.has(c));
    const place = { x: p % width, y: Math.floor(p / width), width: 1.02, height: 1.02 };
    if (!revealed) picture.append(svg("rect", { ...place, class: "hidden" }));
    const colour = revealed || showHidden ? pixelColour(columns.map((c) => narrative.cell(c)), range) : null;
    if (colour === null) continue;
    picture.append(svg("rect", { ...place, class: revealed ? null : "faint", fill: colour, "data-pixel": p }));
  }
  narrative.steps.slice(0, step).forEach(({ units }, i) => {
    for (const unit of units) picture.append(...patchMark(data, unit, i + 1, i + 1 === step));
  });
  if (paint) addPainting(picture, channels, paint);
  return picture;
}

function patchMark(data, unit, number, isNow) {
  const frame = unitFrame(data, unit);
  const kind = isNow ? "present" : "past";
  const size = Math.max(0.9, Math.min(frame.width, frame.height) * 0.3);
  return [
    svg("rect", {
      x: frame.left, y: frame.top, width: frame.width, height: frame.height,
      class: `patch ${kind}`, "stroke-width": 0.012 * Math.max(...data.image.slice(0, 2)),
    }),
    svg("text", {
      x: frame.left + frame.width / 2, y: frame.top + frame.height / 2 + 0.36 * size,
      class: `mark ${kind}`, "font-size": size, "stroke-width": 0.18 * size, "text-anchor": "middle",
    }, String(number)),
  ];
}

function addPainting(picture, channels, paint) {
  let painted = null;
  const touch = (event) => {
    const target = document.elementFromPoint(event.clientX, event.clientY);
    const pixel = target?.getAttribute("data-pixel");
    if (pixel === null || pixel === undefined || !picture.contains(target)) return;
    for (let i = 0; i < channels; i++) painted.add(Number(pixel) * channels + i);
    target.setAttribute("fill", paint.colour());
  };
  picture.addEventListener("pointerdown", (event) => {
    if (!event.target.getAttribute("data-pixel")) return;
    event.preventDefault();
    painted = new Set();
    touch(event);
  });
  picture.addEventListener("pointermove", (event) => painted && touch(event));
  const finish = () => {
    if (painted?.size) paint.done([...painted]);
    painted = null;
  };
  picture.addEventListener("pointerup", finish);
  picture.addEventListener("pointerleave", finish);
}

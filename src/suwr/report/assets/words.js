// What is said about a revealed value, as in suwr.data.descriptions.

const MAX_VALUES = 12;
const MAX_POSITIONS = 4;
const FAR = 0.5;

const described = (data, column) => data.descriptions[column] ?? {};

/** A value with its unit of measurement, or the label of a category. */
function cellText(data, column, value) {
  const { labels = [], unit } = described(data, column);
  const found = labels.find(([known]) => known === value);
  if (found) return printable(found[1]);
  const text = valueText(value);
  return typeof value === "number" && unit !== undefined ? `${text} ${printable(unit)}` : text;
}

/** How a value is unlike the training data; '' if it is not. */
function unusualText({ categories, all_categories: complete = true, limits }, value) {
  if (value === null || value === undefined || value === OTHER) return "";
  if (categories !== undefined) {
    if (categories.includes(value)) return "";
    return `${complete ? "never seen in training" : "rare or never seen"}: treated as any other`;
  }
  if (limits === undefined || typeof value !== "number") return "";
  const [low, high] = limits;
  const margin = FAR * (high - low);
  if (low - margin <= value && value <= high + margin) return "";
  const where = value > high ? "far above" : "far below";
  return `${where} the training values, ${valueText(low)} to ${valueText(high)}`;
}

/** Where a number lies among the training values; '' if that is not known. */
function positionText({ quantiles }, value) {
  if (quantiles === undefined || typeof value !== "number") return "";
  const last = quantiles.length - 1;
  const above = quantiles.filter((q) => q < value).length - 1;
  const below = quantiles.filter((q) => q > value).length - 1;
  const [side, most] = above >= below ? ["above", above] : ["below", below];
  if (most <= 0) return "";
  if (most === last) return `${side} all training values`;
  return `${side} ${Math.floor((100 * most) / last)} % of the training values`;
}

/** How a value is unlike the training data, or where it lies in it if the page has quantiles. */
function noteText(data, column, value, context = true) {
  const about = described(data, column);
  return unusualText(about, value) || (context ? positionText(about, value) : "");
}

function columnFact(data, column, value, context) {
  const note = noteText(data, column, value, context);
  const fact = `${data.columns[column]} is ${cellText(data, column, value)}`;
  return note ? `${fact} (${note})` : fact;
}

/** The pixels of a patch, described by their mean. */
function patchFact(values) {
  const numbers = values.filter((v) => typeof v === "number");
  const present = values.filter((v) => v !== null);
  if (values.length === 1 || numbers.length < present.length) {
    return values.slice(0, MAX_VALUES).map(valueText).join(", ");
  }
  if (numbers.length === 0) return "missing";
  return `mean value ${significant(numbers.reduce((sum, v) => sum + v, 0) / numbers.length, 3)}`;
}

/** 'age is 71', for a group 'panel: a is 1, b is missing', and for a patch its mean value. */
function readingText(data, units, cell, context = true) {
  const parts = units.map((number) => {
    const { name, columns, alone, patch } = data.units[number];
    if (patch) return `${name}: ${patchFact(columns.map(cell))}`;
    const positions = context && columns.length <= MAX_POSITIONS;
    let facts = columns
      .slice(0, MAX_VALUES)
      .map((c) => columnFact(data, c, cell(c), positions))
      .join(", ");
    if (columns.length > MAX_VALUES) facts += `, … (${columns.length} columns)`;
    return alone ? facts : `${name}: ${facts}`;
  });
  return parts.join("; ");
}

// Parsing of single cells by the type of their column, as in suwr.data.parse.

// The result for a cell that has no meaning in its column.
const INVALID = Symbol("invalid");
// A category that does not occur in the training data.
const OTHER = Object.freeze({ other: true });

const MISSING_TEXTS = new Set([
  "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
  "NaN", "None", "n/a", "nan", "null",
]);
const NUMBER = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const OUTER_SPACE = /^[ \t\r\n\f\v]+|[ \t\r\n\f\v]+$/g;
const TRUTH = new Map([["true", 1], ["false", 0]]);

function parseNumber(cell) {
  if (typeof cell !== "string") return Number.isFinite(Number(cell)) ? Number(cell) : INVALID;
  const text = cell.replace(OUTER_SPACE, "");
  if (MISSING_TEXTS.has(text)) return null;
  const number = NUMBER.test(text) ? Number(text) : TRUTH.get(text.toLowerCase());
  return Number.isFinite(number) ? number : INVALID;
}

function parseBoolean(cell) {
  const number = parseNumber(cell);
  if (number === null || number === INVALID) return number;
  return number === 0 || number === 1 ? number === 1 : INVALID;
}

function parseText(cell, categories) {
  const text = typeof cell === "string" ? cell : labelText(cell);
  return MISSING_TEXTS.has(text) && !categories.includes(text) ? null : text;
}

/** Integers that JavaScript cannot represent are categories as text; see _plain in suwr.report.page. */
function parseNumericCategory(cell, categories) {
  return categories.includes(cell) ? cell : parseNumber(cell);
}

const PARSERS = { number: parseNumber, boolean: parseBoolean, text: parseText, "numeric category": parseNumericCategory };

/** A number, a boolean or a text; null if the cell is missing, INVALID if it has no meaning in this column. */
function parseCell(code, cell) {
  if (cell === null || cell === OTHER || cell === INVALID) return cell;
  return PARSERS[code.type](cell, code.categories ?? []);
}

// Creating elements. Text always becomes a text node, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach((pair) => node.style.setProperty(...pair));
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  return node;
}

const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

/** A labelled drop-down; `options` are [value, text] pairs. */
function dropDown(label, options) {
  const select = el("select", { "aria-label": label }, options.map(([value, text]) => el("option", { value }, text)));
  return el("label", {}, el("span", {}, label), select);
}

// Input fields for the values of a row.

function readNumber(code, text) {
  if (["?", "missing", "unknown"].includes(text.trim().toLowerCase())) return null;
  return knownValue(code, text);
}

/**
 * An input field for one column: `read()` returns its value, or undefined while it is invalid.
 * `value` is undefined in a question, where nothing is preselected.
 */
function cellField(data, column, code, value, attributes) {
  const name = data.columns[column];
  return code.categories
    ? categoryField(name, code, value, (choice) => cellText(data, column, choice), attributes)
    : numberField(name, code, value, attributes);
}

function numberField(name, code, value, attributes) {
  const input = el("input", {
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    "aria-label": name,
    placeholder: value === undefined ? `e.g. ${significant(code.center, 4)}` : "missing",
    value: typeof value === "number" || typeof value === "string" ? String(value) : "",
    ...attributes,
  });
  const read = () => {
    const number = readNumber(code, input.value);
    input.setAttribute("aria-invalid", String(number === undefined));
    return number;
  };
  return { node: input, read };
}

function categoryField(name, { type, categories }, value, wording, attributes) {
  const choices = categories.map((category) => [wording(category), category]);
  const place = categories.indexOf(value);
  if (value !== undefined && value !== null && value !== OTHER && place < 0) {
    choices.push([`${wording(value)} (not in the training data)`, value]);
  }
  if (type !== "boolean") choices.push(["any other value", OTHER]);
  choices.push(["missing", null]);
  const chosen = choices.findIndex(([, choice]) => choice === value);
  const select = el("select", { "aria-label": name, ...attributes });
  if (chosen < 0) select.append(el("option", { value: "" }, "choose …"));
  choices.forEach(([text], i) => select.append(el("option", { value: i }, text)));
  if (chosen >= 0) select.value = String(chosen);
  const read = () => {
    const open = select.value === "";
    select.setAttribute("aria-invalid", String(open));
    return open ? undefined : choices[Number(select.value)][1];
  };
  return { node: select, read };
}

// Algorithm 1 in JavaScript: the same networks and decisions as in Python.

const ACTIVATIONS = {
  none: (x) => x,
  hardswish: (x) => (x * Math.min(Math.max(x + 3, 0), 6)) / 6,
};

// Kinds of layers. `unpack` takes a layer's weights, `run` evaluates the layer.
const LAYERS = {
  dense: {
    unpack: (layer, take) => ({ ...layer, weight: take(layer.shape[0] * layer.shape[1]), bias: take(layer.shape[1]) }),
    run({ shape, weight, bias, activation }, x) {
      const y = Float64Array.from(bias);
      for (let i = 0; i < shape[0]; i++) {
        const factor = x[i];
        if (factor === 0) continue;
        const start = i * shape[1];
        for (let j = 0; j < shape[1]; j++) y[j] += factor * weight[start + j];
      }
      return y.map(ACTIVATIONS[activation]);
    },
  },
  // Weights are (out channels, in channels, size, size); images are (channels, height, width).
  conv: {
    unpack: (layer, take) => ({
      ...layer, weight: take(layer.n_out * layer.image[0] * layer.size ** 2), bias: take(layer.n_out),
    }),
    run({ image: [n_in, height, width], n_out, size, stride, padding, weight, bias, activation }, x) {
      const high = Math.floor((height + 2 * padding - size) / stride) + 1;
      const wide = Math.floor((width + 2 * padding - size) / stride) + 1;
      const y = new Float64Array(n_out * high * wide);
      for (let o = 0; o < n_out; o++) {
        const plane = y.subarray(o * high * wide, (o + 1) * high * wide).fill(bias[o]);
        for (let k = 0; k < n_in * size * size; k++) {
          const factor = weight[o * n_in * size * size + k];
          const down = (Math.floor(k / size) % size) - padding;
          const right = (k % size) - padding;
          const source = Math.floor(k / (size * size)) * height * width;
          for (let r = 0; r < high; r++) {
            const row = r * stride + down;
            if (row < 0 || row >= height) continue;
            for (let c = 0; c < wide; c++) {
              const column = c * stride + right;
              if (column >= 0 && column < width) plane[r * wide + c] += factor * x[source + row * width + column];
            }
          }
        }
      }
      return y.map(ACTIVATIONS[activation]);
    },
  },
  // Constant inputs, such as the sparsity weight that a policy is conditioned on.
  append: {
    unpack: (layer) => layer,
    run: ({ values }, x) => Float64Array.from([...x, ...values]),
  },
};

/** Decode the weights and assign them to the layers. */
function unpackModel(description) {
  const bytes = Uint8Array.from(atob(description.weights), (c) => c.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer);
  let position = 0;
  const take = (n) => numbers.subarray(position, (position += n));
  const unpack = (network) => ({
    inputs: network.inputs,
    layers: network.layers.map((layer) => LAYERS[layer.kind].unpack(layer, take)),
  });
  const networks = description.networks.map(unpack);
  const stop = description.stop && unpack(description.stop);
  return { ...description, networks, stop, weights: null };
}

/** The encoding of one parsed value. */
function encodeCell(code, bound, value) {
  const missing = value === null;
  let numbers;
  if (code.categories) {
    numbers = code.categories.map((category) => (category === value ? 1 : 0));
  } else {
    // Clipped as in suwr.data.encode, so that the squares stay finite.
    const scaled = missing ? 0 : Math.min(Math.max((value - code.center) / code.scale, -1e150), 1e150);
    const inBin = (low, high) => (missing ? 0 : Math.min(Math.max((scaled - low) / (high - low), 0), 1));
    const pieces = code.knots.slice(1).map((high, i) => inBin(code.knots[i], high));
    numbers = [scaled / Math.hypot(1, scaled / bound), ...pieces].map(Math.fround);
  }
  if (code.has_missing) numbers.push(missing ? 1 : 0);
  return numbers;
}

function forward(network, parts) {
  const x = Float64Array.from(network.inputs.flatMap((part) => parts[part]));
  return network.layers.reduce((y, layer) => LAYERS[layer.kind].run(layer, y), x);
}

function softmax(outputs) {
  const most = Math.max(...outputs);
  const powers = outputs.map((o) => Math.exp(o - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / sum);
}

/** Predictive uncertainty and the fraction of revealed columns; as in suwr.nn.networks. */
function uncertaintyFeatures(probabilities, mask) {
  const entropy = probabilities.reduce((sum, p) => sum - p * Math.log(Math.max(p, 1e-9)), 0);
  const [first, second] = [...probabilities].sort((a, b) => b - a);
  const left = Math.log(Math.max(1 - first, 1e-4)) / Math.log(1e-4);
  const shown = mask.reduce((sum, m) => sum + m, 0) / mask.length;
  return [entropy / Math.log(probabilities.length), first, second, left, shown];
}

// As in suwr.nn.step.
const MAX_ALTERNATIVES = 3;
const NEAR_TIE = 0.9;

/** The stop probability of a policy that stops by confidence: one half where the others have these odds. */
function confidence(probabilities, odds) {
  const place = ranking(probabilities)[0];
  const others = probabilities.reduce((sum, p, i) => (i === place ? sum : sum + p), 0);
  return (odds * probabilities[place]) / (odds * probabilities[place] + others);
}

/** Transformations of the target; as in suwr.estimators.targets. */
const TRANSFORMS = {
  log: { forward: Math.log, inverse: Math.exp },
  log1p: { forward: Math.log1p, inverse: Math.expm1 },
  asinh: { forward: Math.asinh, inverse: Math.sinh },
};

/** Stop probability, selection scores and prediction, given the revealed values. */
function evaluate(model, known) {
  const parts = { values: [], mask: [] };
  model.codes.forEach((code, column) => {
    // A cell that was not recorded reveals nothing.
    const shown = known.has(column) && !(model.unrecorded && known.get(column) === null);
    const numbers = encodeCell(code, model.bound, shown ? known.get(column) : null);
    parts.values.push(...(shown ? numbers : numbers.fill(0)));
    parts.mask.push(shown ? 1 : 0);
  });
  const outputs = model.networks.map((network) => forward(network, parts));
  const part = ([network, first, end]) => Array.from(outputs[network].slice(first, end));
  const { kind, scale, mean, max_log: bound, max_transformed: most } = model.output;
  // With a log link, the output is the logarithm of the prediction.
  const inverse = (o) => (bound === undefined ? o : Math.exp(Math.min(Math.max(o, -bound), bound)));
  const members = model.predict.map((place) =>
    kind === "probabilities" ? softmax(part(place)) : part(place).map((o) => inverse(o) * scale + mean)
  );
  const transform = TRANSFORMS[model.output.transform];
  const prediction = members[0].map((_, i) => {
    const mean = members.reduce((sum, member) => sum + member[i], 0) / members.length;
    return transform ? transform.inverse(Math.min(Math.max(mean, -most), most)) : mean;
  });
  const gain = model.stop
    ? forward(model.stop, { [model.stop.inputs[0]]: uncertaintyFeatures(prediction, parts.mask) })[0]
    : part(model.gain)[0];
  const stop = model.stop_odds === null
    ? 1 / (1 + Math.exp(gain / model.stop_temperature))
    : confidence(prediction, model.stop_odds);
  return { stop, scores: part(model.select), prediction };
}

/**
 * The greedy rollout (Algorithm 1) on one row.
 *
 * `read(column)` returns the value of a revealed column: null if it is missing, undefined if it is
 * not known yet. In that case, and if the value is invalid, the rollout pauses, and `asking` holds the
 * units to ask for; they are none if columns that are known at the start are asked for. `margin` is the
 * smallest distance of any decision from the opposite one.
 */
function runPolicy(model, data, read) {
  const cell = (column) => knownValue(model.codes[column], read(column));
  const known = new Map(model.start.map((column) => [column, cell(column)]));
  const steps = [];
  const lacking = model.start.filter((column) => known.get(column) === undefined);
  if (lacking.length > 0) {
    const asking = { units: [], columns: lacking };
    return { start: null, stop: null, steps, cell, margin: Infinity, ended: "open", asking };
  }
  const given = startFacts(model, data, cell);
  let margin = Infinity;
  let first = null;
  for (;;) {
    const { stop: chance, scores, prediction } = evaluate(model, known);
    const left = data.units.map((_, u) => u).filter((u) => model.selectable[u] && data.units[u].columns.some((c) => !known.has(c)));
    const budget = steps.length >= model.max_steps;
    const stop = budget || left.length === 0 ? 1 : chance;
    if (first === null) first = { prediction, stop };
    else Object.assign(steps.at(-1), { prediction, stop });
    const narrative = (rest) => ({ start: first.prediction, stop: first.stop, steps, cell, margin, ...given, ...rest });
    if (!budget && left.length > 0) margin = Math.min(margin, Math.abs(chance - 0.5));
    if (stop >= 0.5) {
      const ended = left.length === 0 ? "everything" : budget ? model.budget_ending : "decision";
      return narrative({ ended, asking: null });
    }
    left.sort((a, b) => scores[b] - scores[a] || a - b);
    const units = left.slice(0, model.units_per_step);
    for (let i = 0; i < units.length && i + 1 < left.length; i++) {
      margin = Math.min(margin, scores[left[i]] - scores[left[i + 1]]);
    }
    const outlook = {
      usual: usualEffect(model, units[0], steps.length + 1),
      alternatives: left.slice(units.length, units.length + MAX_ALTERNATIVES)
        .filter((u) => Math.exp(scores[u] - scores[units.at(-1)]) >= NEAR_TIE).map((u) => data.units[u].key),
    };
    const columns = [...new Set(units.flatMap((u) => data.units[u].columns))].filter((c) => !known.has(c));
    if (columns.some((c) => cell(c) === undefined)) {
      return narrative({ ended: "open", asking: { units, columns, ...outlook } });
    }
    columns.forEach((c) => known.set(c, cell(c)));
    steps.push({ units, prediction: null, stop: null, ...outlook });
  }
}

/** Rows that a step moved and rows that took it, of this step or of any step of the unit. */
function usualEffect({ effects }, unit, step) {
  return effects[unit]?.[step] ?? effects[unit]?.[0] ?? null;
}

/** What is known at the start, as in suwr.narrative.given; nothing if rows start from nothing. */
function startFacts(model, data, cell) {
  if (model.start.length === 0) return {};
  const facts = model.start.map((column) => `${data.names[column]} is ${valueText(cell(column))}`);
  return { given: [`Known at the start: ${facts.join("; ")}.`], n_known: model.start.length };
}

/** A parsed value; undefined if it is not known or invalid. */
function knownValue(code, value) {
  const parsed = value === undefined ? INVALID : parseCell(code, value);
  return parsed === INVALID ? undefined : parsed;
}

/** The narrative of a row as recorded by Python. */
function recordedNarrative(row) {
  const steps = row.steps.map(([units, stop, prediction, usual, alternatives]) =>
    ({ units, stop, prediction, usual, alternatives }));
  const { label, start, stop, ended, comparison, given, n_known } = row;
  return { label, start, stop, steps, ended, comparison, given, n_known, asking: null, cell: (c) => row.cells[c] };
}


// Parts of the page that only display: bars, sentences, and facts about the model.

const FEW = 10;
const UNSURE = 0.5; // probability below which the best class is more likely wrong than right
const $ = (id) => document.getElementById(id);

// Format a number with its sign; the minus sign is as wide as the plus.
export function signed(value) {
  const text = Math.abs(value).toFixed(2);
  return (value < 0 ? "\u2212" : "+") + text;
}

// Format a probability in percent; neither 0 nor 100 unless it is.
export function percent(value) {
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  if (value >= 0.9995 && value < 1) return "> 99.9 %";
  return `${(100 * value).toFixed(1)} %`;
}

export function megabytes(bytes) {
  const value = bytes / 1e6;
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

// Draw bars of the best classes and the chosen one, from 0 to 100 %; return how many.
export function drawBars(place, classes, label, all, onChoose) {
  const shown = classes.filter((one, i) => all || i < FEW || one.label === label);
  const focused = place.contains(document.activeElement);
  place.replaceChildren(...shown.map((one) => drawBar(one, label, onChoose)));
  if (focused) place.querySelector(":checked")?.focus();
  return shown.length;
}

function drawBar({ label, probability }, chosen, onChoose) {
  const bar = document.createElement("label");
  bar.className = "bar";
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "class", value: label, checked: label === chosen });
  input.addEventListener("change", () => onChoose(label));
  const [name, value, track, fill] = ["name", "value", "track", "fill"].map((kind) => {
    const part = document.createElement("span");
    part.className = kind;
    return part;
  });
  name.textContent = label;
  value.textContent = percent(probability);
  fill.style.width = `${100 * probability}%`;
  track.append(fill);
  bar.append(input, name, value, track);
  return bar;
}

// Return the best class, with a question mark where it is unsure.
export function headline(result) {
  if (!isDecisive(result)) return "No evidence";
  if (!result.known) return "Unknown";
  const { label, probability } = result.classes[0];
  return probability < UNSURE ? `${label}?` : label;
}

// Say how sure the answer is; null if all is well.
export function caution(result, least) {
  if (!isDecisive(result)) return null;
  const { label, probability } = result.classes[0];
  const given = percent(probability);
  if (!result.familiar) {
    const guess = result.known ? "" : ` The best guess is ${label}, with ${given}.`;
    return `The image is unlike those that the model was trained on.${guess}`;
  }
  if (!result.known) {
    return `The best guess is ${label}, with ${given}; below ${percent(least)} the answer is “unknown”.`;
  }
  if (probability < UNSURE) return `Unsure: with ${given} it is more likely wrong than right.`;
  return null;
}

export function summarize(result) {
  if (!isDecisive(result)) {
    return "The image has no evidence for or against any class: all are equally likely.";
  }
  const { label, score, intercept } = result;
  const evidence = `The evidence for ${label} adds up to ${signed(score - intercept)}`;
  if (intercept === 0) return `${evidence}, which is its score.`;
  return `${evidence}; adding the intercept of ${signed(intercept)} gives its score.`;
}

// A black image has the same score for every class, and the first class would win.
export function isDecisive({ classes }) {
  return classes.some(({ score }) => score !== classes[0].score);
}

export function showCard(card) {
  const classes = plural(Object.keys(card.classes).length, "class", "classes");
  const images = plural(card.images, "image");
  $("model-name").textContent = card.model;
  document.title = card.model;
  const estimate = card.estimate && describeEstimate(card.estimate);
  const line = [`${classes} from ${images}`, estimate];
  $("model-line").textContent = line.filter(Boolean).join(" · ");
  const facts = {
    file: `${card.model}, ${megabytes(card.bytes)} MB`,
    method: `${card.method}: ${card.summary}`,
    "trained on": `${images} of ${classes}`,
    estimate: estimate ?? "none",
    "trained with": `lrrspm ${card.library}`,
    "served by": `lrrspm ${card.server}`,
    accepts: `images up to ${megabytes(card.limits.file_bytes)} MB`,
  };
  if (card.min_confidence !== null) facts.answers = `from ${percent(card.min_confidence)} on, else “unknown”`;
  list($("facts"), facts);
  $("calibrated").hidden = !card.calibrated;
  $("uncalibrated").hidden = card.calibrated;
  list($("parameters"), flatten(card.parameters));
  $("classes").replaceChildren(
    ...Object.entries(card.classes).map(([name, images]) => {
      const row = document.createElement("tr");
      row.append(cell("td", name), cell("td", images));
      return row;
    }),
  );
}

function describeEstimate({ accuracy, low, high, images, rough }) {
  const caution = rough ? "; too few for more than a rough estimate" : "";
  const between = low === null ? "" : ` (95 %: ${low.toFixed(1)} to ${high.toFixed(1)})`;
  const tested = plural(images, "test image");
  return `about ${accuracy.toFixed(1)} % correct${between}, from ${tested}${caution}`;
}

// Return nested parameters as one object, whose keys are the paths: "channels 2 · encoder".
function flatten(values, path = "") {
  const flat = {};
  for (const [key, value] of Object.entries(values)) {
    let name = path ? `${path} · ${key}` : key;
    if (Array.isArray(values)) name = values.length > 1 ? `${path} ${Number(key) + 1}` : path;
    if (Array.isArray(value) && value.every((one) => !isNested(one))) flat[name] = value.join(", ");
    else if (isNested(value)) Object.assign(flat, flatten(value, name));
    else flat[name] = value ?? "none";
  }
  return flat;
}

function isNested(value) {
  return typeof value === "object" && value !== null;
}

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

function list(place, entries) {
  place.replaceChildren(
    ...Object.entries(entries).flatMap(([name, value]) => [
      cell("dt", name.replaceAll("_", " ")),
      cell("dd", value),
    ]),
  );
}

function cell(kind, text) {
  const element = document.createElement(kind);
  element.textContent = text;
  return element;
}

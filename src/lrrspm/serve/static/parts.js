// Parts of the page that only show: bars and the model's card.

const FEW = 10;
const $ = (id) => document.getElementById(id);

// A number with its sign, the minus being as wide as the plus.
export function signed(value) {
  const text = Math.abs(value).toFixed(2);
  return (value < 0 ? "\u2212" : "+") + text;
}

export function megabytes(bytes) {
  const value = bytes / 1e6;
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

// Bars of the best classes, and of the chosen one, from a common zero; returns how many.
export function drawBars(place, classes, label, all, onChoose) {
  const shown = classes.filter((one, i) => all || i < FEW || one.label === label);
  const least = Math.min(0, ...shown.map((one) => one.score));
  const most = Math.max(0, ...shown.map((one) => one.score));
  const span = most - least || 1;
  const focused = place.contains(document.activeElement);
  place.replaceChildren(...shown.map((one) => drawBar(one, least, span, label, onChoose)));
  if (focused) place.querySelector(":checked")?.focus();
  return shown.length;
}

function drawBar({ label, score }, least, span, chosen, onChoose) {
  const bar = document.createElement("label");
  bar.className = "bar";
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "class", value: label, checked: label === chosen });
  input.addEventListener("change", () => onChoose(label));
  const [name, value, track, fill, zero] = ["name", "value", "track", "fill", "zero"].map((kind) => {
    const part = document.createElement("span");
    part.className = kind;
    return part;
  });
  name.textContent = label;
  value.textContent = signed(score);
  fill.classList.toggle("positive", score > 0);
  fill.style.left = `${(100 * (Math.min(score, 0) - least)) / span}%`;
  fill.style.width = `${(100 * Math.abs(score)) / span}%`;
  zero.style.left = `${(100 * -least) / span}%`;
  track.append(fill, zero);
  bar.append(input, name, value, track);
  return bar;
}

// What a picture is taken for, if anything on it counted.
export function headline(answer) {
  return tells(answer) ? answer.label : "Nothing to see";
}

export function inWords(answer) {
  if (!tells(answer)) return "Nothing in it speaks for or against any class: all scores are equal.";
  const { label, score, intercept } = answer;
  const evidence = `The evidence for ${label} adds up to ${signed(score - intercept)}`;
  if (intercept === 0) return `${evidence}, its score.`;
  return `${evidence}; with the intercept of ${signed(intercept)} that is its score.`;
}

// A black picture has the same score for every class, and the first would win.
export function tells({ classes }) {
  return classes.some(({ score }) => score !== classes[0].score);
}

export function showCard(card) {
  const count = Object.keys(card.classes).length;
  const images = card.images.toLocaleString("en");
  $("model-name").textContent = card.model;
  document.title = card.model;
  const estimate = card.held_out && describeEstimate(card.held_out);
  const known = [`${count} classes from ${images} pictures`, estimate];
  $("model-line").textContent = known.filter(Boolean).join(" · ");
  const facts = {
    file: `${card.model}, ${megabytes(card.bytes)} MB`,
    method: `${card.method}: ${card.summary}`,
    "trained on": `${images} pictures of ${count} classes`,
    estimate: estimate ?? "none was made",
    "trained with": `lrrspm ${card.library}`,
    "served by": `lrrspm ${card.server}`,
    takes: `pictures up to ${megabytes(card.limits.file_bytes)} MB`,
  };
  list($("facts"), facts);
  list($("parameters"), card.parameters);
  $("classes").replaceChildren(
    ...Object.entries(card.classes).map(([name, images]) => {
      const row = document.createElement("tr");
      row.append(cell("td", name), cell("td", images));
      return row;
    }),
  );
}

function describeEstimate({ accuracy, images, rough }) {
  const caution = rough ? ", so few that it is a rough guess" : "";
  return `${accuracy.toFixed(1)} % right on ${images.toLocaleString("en")} pictures kept aside${caution}`;
}

function list(place, entries) {
  place.replaceChildren(
    ...Object.entries(entries).flatMap(([name, value]) => [
      cell("dt", name.replaceAll("_", " ")),
      cell("dd", Array.isArray(value) ? value.join(", ") : value),
    ]),
  );
}

function cell(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

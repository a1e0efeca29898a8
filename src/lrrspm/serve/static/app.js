// The page: pictures come in, each is explained by the server, one is shown.

import { explain, readCard } from "./api.js";
import { drawThumb, shownByBrowser } from "./picture.js";
import { drawBars, megabytes, showCard, signed } from "./parts.js";

const AT_ONCE = 2; // requests; the server has a queue, but other clients wait in it too
const $ = (id) => document.getElementById(id);

let card = null;
let items = [];
let chosen = null;
let everyClass = false;
let running = 0;

function add(files) {
  const fresh = [...files].map((file) => ({
    file,
    name: file.name || "pasted picture",
    url: URL.createObjectURL(file),
    state: "waiting",
    error: null,
    label: null, // the class whose evidence is shown
    answers: new Map(), // by class; the first one under null too
    usePreview: false,
    preview: null,
  }));
  if (!fresh.length) return;
  items.push(...fresh);
  fresh.forEach(addToList);
  if (!chosen) choose(fresh[0]);
  showPlaces();
  work();
}

function work() {
  while (running < AT_ONCE) {
    const item = items.find((one) => one.state === "waiting" && !one.begun);
    if (!item) return;
    item.begun = true;
    running += 1;
    look(item).finally(() => {
      running -= 1;
      work();
    });
  }
}

// The first answer for a picture: its classes, and the evidence for the best one.
async function look(item) {
  const most = card?.limits.file_bytes ?? Infinity;
  try {
    if (item.file.size > most) {
      throw new Error(
        `${megabytes(item.file.size)} MB are more than ${megabytes(most)} MB; shrink it first`,
      );
    }
    let picture = await shownByBrowser(item);
    item.usePreview = !picture;
    let answer = await explain(item, null);
    // The browser may not have turned it upright, and then the map would not lie over it.
    if (picture && !fits(picture, answer)) {
      item.usePreview = true;
      answer = await explain(item, null);
    }
    if (answer.preview) {
      item.preview = answer.preview;
      picture = new Image();
      picture.src = answer.preview;
      await picture.decode();
    }
    keep(item, answer);
    item.answers.set(null, answer);
    item.label = answer.label;
    item.state = "done";
    drawThumb(item.thumb, picture);
  } catch (error) {
    item.state = "failed";
    item.error = error.message;
  }
  if (!items.includes(item)) return;
  showInList(item);
  if (item === chosen) show();
  say(item);
}

function fits(picture, answer) {
  return picture.naturalWidth === answer.width && picture.naturalHeight === answer.height;
}

function keep(item, answer) {
  item.answers.set(answer.label, answer);
}

// Another class of the chosen picture.
async function switchTo(label) {
  const item = chosen;
  item.label = label;
  if (!item.answers.has(label)) {
    $("stack").classList.add("waiting");
    try {
      keep(item, await explain(item, label));
    } catch (error) {
      if (item === chosen && item.label === label) {
        $("caption").textContent = `${label}: ${error.message}`;
        $("status").textContent = `${label}: ${error.message}`;
      }
      return;
    }
  }
  if (item === chosen && item.label === label) {
    showEvidence();
    say(item);
  }
}

function say(item) {
  if (item.state === "failed") {
    $("status").textContent = `${item.name}: ${item.error}`;
  } else if (item === chosen && item.state === "done") {
    const answer = item.answers.get(item.label);
    if (answer) $("status").textContent = `${item.name}: ${answer.label}, score ${signed(answer.score)}`;
  }
}

// The list of pictures.

function addToList(item) {
  const row = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "item";
  item.thumb = document.createElement("span");
  item.thumb.className = "thumb";
  const [title, detail] = [document.createElement("b"), document.createElement("small")];
  button.append(item.thumb, title, detail);
  button.addEventListener("click", () => choose(item));
  button.addEventListener("keydown", (event) => moveInList(event, item));
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "remove";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Remove ${item.name}`);
  remove.addEventListener("click", () => drop(item));
  row.append(button, remove);
  Object.assign(item, { row, button, title, detail });
  $("pictures").append(row);
  showInList(item);
}

function showInList(item) {
  item.button.classList.toggle("waiting", item.state === "waiting");
  item.button.classList.toggle("failed", item.state === "failed");
  item.button.setAttribute("aria-current", String(item === chosen));
  const best = item.answers.get(null);
  item.title.textContent = best ? best.label : item.state === "failed" ? "Not read" : "…";
  item.detail.textContent = item.state === "failed" ? `${item.name}: ${item.error}` : item.name;
  item.button.title = item.name;
  if (item.state === "failed") item.thumb.textContent = "!";
}

function moveInList(event, item) {
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (event.key === "Delete") {
    drop(item);
  } else if (step) {
    const next = items[items.indexOf(item) + step];
    if (next) choose(next, true);
  } else {
    return;
  }
  event.preventDefault();
}

function drop(item) {
  const index = items.indexOf(item);
  const focused = item.row.contains(document.activeElement);
  items.splice(index, 1);
  item.row.remove();
  URL.revokeObjectURL(item.url);
  if (item === chosen) {
    chosen = null;
    const next = items[Math.min(index, items.length - 1)];
    if (next) choose(next, focused);
  }
  showPlaces();
  if (!items.length) $("choose").focus();
}

function choose(item, focus = false) {
  const before = chosen;
  chosen = item;
  if (before) showInList(before);
  showInList(item);
  if (focus) item.button.focus();
  item.row.scrollIntoView({ block: "nearest", inline: "nearest" });
  show();
  say(item);
}

// The chosen picture.

function showPlaces() {
  const any = items.length > 0;
  document.querySelector("main").classList.toggle("busy", any);
  $("drop").hidden = any;
  $("list").hidden = $("stage").hidden = !any;
  if (!any) $("result").hidden = true;
}

function show() {
  const item = chosen;
  const done = item.state === "done";
  const failed = item.state === "failed";
  $("stack").hidden = failed;
  $("message").hidden = !failed;
  $("controls").hidden = failed;
  $("result").hidden = !done;
  $("message").textContent = failed ? item.error : "";
  $("caption").textContent = item.name;
  $("picture").alt = item.name;
  $("stack").classList.toggle("waiting", !done);
  if (!done) {
    $("map").removeAttribute("src");
    $("legend-label").textContent = "";
    if (!failed) size(3, 2);
    if (item.state === "waiting") $("picture").removeAttribute("src");
    return;
  }
  const best = item.answers.get(null);
  size(best.width, best.height);
  $("picture").src = item.preview ?? item.url;
  showBars();
  showEvidence();
}

// As large as there is room for, in its own shape.
function size(width, height) {
  $("stack").style.aspectRatio = `${width} / ${height}`;
  $("stack").style.width = `min(100%, calc(68vh * ${width / height}))`;
}

function showBars() {
  const classes = chosen.answers.get(null).classes;
  const shown = drawBars($("bars"), classes, chosen.label, everyClass, switchTo);
  $("more").hidden = shown === classes.length && !everyClass;
  $("more").textContent = everyClass ? "Show fewer" : `Show all ${classes.length} classes`;
  $("more").setAttribute("aria-expanded", String(everyClass));
}

function showEvidence() {
  const answer = chosen.answers.get(chosen.label);
  const best = chosen.answers.get(null);
  $("best").textContent = best.label;
  $("sum").textContent = inWords(answer);
  $("legend-label").textContent = answer.label;
  $("map").src = answer.map;
  $("map").alt = `Evidence for ${answer.label}`;
  $("stack").classList.remove("waiting");
  $("caption").textContent =
    `${chosen.name} · ${answer.width} × ${answer.height} · ${answer.milliseconds.toFixed(0)} ms`;
}

function inWords({ label, score, intercept }) {
  const evidence = `The evidence for ${label} adds up to ${signed(score - intercept)}`;
  if (intercept === 0) return `${evidence}, its score.`;
  return `${evidence}; with the intercept of ${signed(intercept)} that is its score.`;
}

// What people do.

function fade() {
  $("stack").style.setProperty("--evidence", $("opacity").value / 100);
  $("opacity").setAttribute("aria-valuetext", `${$("opacity").value} %`);
}

$("opacity").addEventListener("input", fade);
for (const id of ["choose", "add"]) $(id).addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => {
  add($("files").files);
  $("files").value = "";
});
$("clear").addEventListener("click", () => [...items].forEach(drop));
$("more").addEventListener("click", () => {
  everyClass = !everyClass;
  showBars();
});
document.addEventListener("paste", (event) => add(event.clipboardData.files));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("over");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("over");
  add(event.dataTransfer.files);
});
document.querySelector('a[href="#about"]').addEventListener("click", () => {
  $("about").open = true;
});

fade();
try {
  card = await readCard();
  showCard(card);
} catch (error) {
  $("model-line").textContent = error.message;
}

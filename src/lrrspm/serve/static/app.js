// The page: a list of images, each explained by the server, one of them shown.

import { explain, readCard } from "./api.js";
import { offerCorrections, showCorrection } from "./corrections.js";
import { UNREADABLE, decodeInBrowser, drawThumb } from "./image.js";
import {
  caution, drawBars, headline, isDecisive, megabytes, percent, showCard, summarize,
} from "./parts.js";

const AT_ONCE = 2; // requests; the server has a queue, which other clients share
const $ = (id) => document.getElementById(id);

let card = null;
let items = [];
let chosen = null;
let allClasses = false;
let running = 0;

// Escape direction marks, which make a name look like another one, as the server does.
function escapeMarks(name) {
  return name.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// A dropped folder appears as an unreadable file.
function add(files, folders = []) {
  const fresh = [...files].map((file, i) => ({
    file,
    folder: folders[i] ?? false,
    name: escapeMarks(file.name) || "pasted image",
    url: URL.createObjectURL(file),
    state: "waiting",
    error: null,
    temporary: false, // whether another try may succeed
    problem: null, // error since the first response
    label: null, // class whose evidence is requested
    seen: null, // class whose evidence was shown last
    turn: 0, // number of times a class was chosen
    results: new Map(), // by class; the first one also under null
    usePreview: false,
    preview: null,
  }));
  if (!fresh.length) return;
  items.push(...fresh);
  fresh.forEach(addToList);
  if (!chosen) choose(fresh[0]);
  showSections();
  startNext();
}

function startNext() {
  while (running < AT_ONCE) {
    const item = items.find((one) => one.state === "waiting" && !one.started);
    if (!item) return;
    item.started = true;
    running += 1;
    load(item).finally(() => {
      running -= 1;
      startNext();
    });
  }
}

// Load the classes of an image, and the evidence for the best one.
async function load(item) {
  const most = card?.limits.file_bytes ?? Infinity;
  try {
    if (item.folder) throw new Error("this is a folder; drop the images in it instead");
    if (item.file.size > most) {
      throw new Error(
        `file is larger than ${megabytes(most)} MB; shrink it first`,
      );
    }
    let image = await decodeInBrowser(item);
    item.usePreview = !image;
    let result = await explain(item, null);
    // If the browser did not rotate it upright, the map would not match.
    if (image && !matches(image, result)) {
      item.usePreview = true;
      result = await explain(item, null);
    }
    if (result.preview) {
      item.preview = result.preview;
      image = new Image();
      image.src = result.preview;
      await image.decode();
    }
    keep(item, result);
    item.results.set(null, result);
    item.label = result.label;
    item.state = "done";
    drawThumb(item.thumb, image);
  } catch (error) {
    item.state = "failed";
    item.error = error.message;
    item.temporary = error.temporary ?? false;
  }
  if (!items.includes(item)) return;
  showInList(item);
  if (item === chosen) show();
  announce(item);
}

// Try again with the images that failed for a temporary reason.
function retry() {
  const again = items.filter((item) => item.state === "failed" && item.temporary);
  for (const item of again) {
    Object.assign(item, { state: "waiting", started: false, error: null });
    showInList(item);
  }
  chosen.button.focus(); // the button disappears
  show();
  startNext();
}

function matches(image, result) {
  return image.naturalWidth === result.width && image.naturalHeight === result.height;
}

function keep(item, result) {
  item.results.set(result.label, result);
}

// Show the evidence for another class of the chosen image.
async function switchTo(label) {
  const item = chosen;
  item.turn += 1;
  const turn = item.turn;
  item.label = label;
  item.problem = null;
  if (!item.results.has(label)) {
    showEvidence();
    try {
      keep(item, await explain(item, label));
    } catch (error) {
      // Meanwhile another class was chosen, or an earlier request succeeded.
      if (turn !== item.turn || item.results.has(label)) return;
      item.label = item.seen;
      item.problem = `cannot show ${label}: ${error.message}`;
      if (item === chosen) showBars();
    }
  }
  if (item !== chosen) return;
  showEvidence();
  if (item.problem) $("message").scrollIntoView({ block: "nearest" }); // out of view on a phone
  else announce(item);
}

function announce(item) {
  if (item.state === "failed") {
    // The error of the chosen image is an alert already.
    if (item !== chosen) $("status").textContent = `${item.name}: ${item.error}`;
  } else if (item === chosen && item.state === "done") {
    const result = item.results.get(item.label);
    if (!result) return;
    const found = isDecisive(result)
      ? `${result.label}, ${percent(result.probability)}`
      : summarize(result);
    const warning = caution(result, card?.min_confidence ?? 0);
    $("status").textContent = [`${item.name}: ${found}`, warning].filter(Boolean).join(". ");
  }
}

// The list of images.

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
  remove.addEventListener("click", () => discard(item));
  row.append(button, remove);
  Object.assign(item, { row, button, title, detail });
  $("images").append(row);
  showInList(item);
}

function showInList(item) {
  item.button.classList.toggle("waiting", item.state === "waiting");
  item.button.classList.toggle("failed", item.state === "failed");
  item.button.setAttribute("aria-current", String(item === chosen));
  const best = item.results.get(null);
  item.title.textContent = best ? headline(best) : item.state === "failed" ? "Failed" : "…";
  item.detail.textContent = item.state === "failed" ? `${item.name}: ${item.error}` : item.name;
  item.button.title = item.name;
  if (!best) item.thumb.textContent = item.state === "failed" ? "!" : "";
}

function moveInList(event, item) {
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (event.key === "Delete") {
    discard(item);
  } else if (step) {
    const next = items[items.indexOf(item) + step];
    if (next) choose(next, true);
  } else {
    return;
  }
  event.preventDefault();
}

function discard(item) {
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
  showSections();
  if (!items.length) $("choose").focus();
}

function choose(item, focus = false) {
  const before = chosen;
  chosen = item;
  if (before) {
    before.problem = null; // it was seen
    showInList(before);
  }
  showInList(item);
  if (focus) item.button.focus();
  item.row.scrollIntoView({ block: "nearest", inline: "nearest" });
  show();
  announce(item);
}

// The chosen image.

function showSections() {
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
  $("controls").hidden = failed;
  $("again").hidden = !(failed && item.temporary);
  $("result").hidden = !done;
  showError(item.error);
  $("caption").textContent = item.name;
  $("image").alt = item.name;
  $("stack").classList.toggle("waiting", !done);
  if (!done) {
    $("map").removeAttribute("src");
    $("legend-label").textContent = "";
    if (!failed) size(3, 2);
    if (item.state === "waiting") $("image").removeAttribute("src");
    return;
  }
  const best = item.results.get(null);
  size(best.width, best.height);
  $("image").src = item.preview ?? item.url;
  showBars();
  showEvidence();
  showCorrection(item);
}

// Fill the available space, at the image's aspect ratio.
function size(width, height) {
  $("stack").style.aspectRatio = `${width} / ${height}`;
  $("stack").style.width = `min(100%, calc(68vh * ${width / height}))`;
}

function showBars() {
  const classes = chosen.results.get(null).classes;
  const shown = drawBars($("bars"), classes, chosen.label, allClasses, switchTo);
  $("more").hidden = shown === classes.length && !allClasses;
  $("more").textContent = allClasses ? "Show fewer" : `Show all ${classes.length} classes`;
  $("more").setAttribute("aria-expanded", String(allClasses));
}

// Show the evidence for the requested class, or that it is being loaded.
function showEvidence() {
  const best = chosen.results.get(null);
  const result = chosen.results.get(chosen.label);
  const caption = [chosen.name, `${best.width} × ${best.height}`];
  $("best").textContent = headline(best);
  const warning = caution(best, card?.min_confidence ?? 0);
  $("caution").hidden = warning === null;
  $("caution").textContent = warning ?? "";
  $("stack").classList.toggle("waiting", !result);
  showError(chosen.problem);
  if (result) {
    chosen.seen = result.label;
    $("sum").textContent = summarize(result);
    $("map").src = result.map;
    caption.push(`${result.milliseconds.toFixed(0)} ms`);
  } else {
    $("sum").textContent = `Loading the evidence for ${chosen.label} …`;
    $("map").removeAttribute("src");
  }
  $("legend-label").textContent = result ? result.label : "";
  $("map").alt = result ? `Evidence for ${result.label}` : "";
  $("caption").textContent = caption.join(" · ");
}

function showError(reason) {
  $("message").hidden = reason === null;
  $("message").textContent = reason ? reason[0].toUpperCase() + reason.slice(1) : "";
}

// Events.

function fade() {
  $("stack").style.setProperty("--evidence", $("opacity").value / 100);
  $("opacity").setAttribute("aria-valuetext", `${$("opacity").value} %`);
}

$("opacity").addEventListener("input", fade);
$("again").addEventListener("click", retry);
$("image").addEventListener("error", () => {
  if (chosen?.state !== "done") return;
  chosen.problem = UNREADABLE;
  showError(chosen.problem);
});
for (const id of ["choose", "add"]) $(id).addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => {
  add($("files").files);
  $("files").value = "";
});
$("clear").addEventListener("click", () => [...items].forEach(discard));
$("more").addEventListener("click", () => {
  allClasses = !allClasses;
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
  const given = [...event.dataTransfer.items].filter((one) => one.kind === "file");
  const folders = given.map((one) => one.webkitGetAsEntry()?.isDirectory);
  add(given.map((one) => one.getAsFile()), folders);
});
document.querySelector('a[href="#about"]').addEventListener("click", () => {
  $("about").open = true;
});

fade();
try {
  card = await readCard();
  showCard(card);
  offerCorrections(card, () => chosen);
} catch (error) {
  $("model-line").textContent = error.message;
}

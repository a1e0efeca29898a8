// The page: pictures come in, each is explained by the server, one is shown.

import { explain, readCard } from "./api.js";
import { UNREADABLE, drawThumb, shownByBrowser } from "./picture.js";
import { drawBars, headline, inWords, megabytes, showCard, signed, tells } from "./parts.js";

const AT_ONCE = 2; // requests; the server has a queue, but other clients wait in it too
const $ = (id) => document.getElementById(id);

let card = null;
let items = [];
let chosen = null;
let everyClass = false;
let running = 0;

// Marks of direction, with which a name reads as another one, written out as the server does.
function withoutMarks(name) {
  return name.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// A folder that is dropped comes as a file, which cannot be read.
function add(files, folders = []) {
  const fresh = [...files].map((file, i) => ({
    file,
    folder: folders[i] ?? false,
    name: withoutMarks(file.name) || "pasted picture",
    url: URL.createObjectURL(file),
    state: "waiting",
    error: null,
    passing: false, // whether the error may be gone when it is tried again
    problem: null, // what went wrong since the first answer
    label: null, // the class whose evidence is wanted
    seen: null, // the class whose evidence was shown last
    turn: 0, // how often a class was chosen
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
    if (item.folder) throw new Error("this is a folder; drop the pictures in it instead");
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
    item.passing = error.passing ?? false;
  }
  if (!items.includes(item)) return;
  showInList(item);
  if (item === chosen) show();
  say(item);
}

// The pictures that failed for no fault of theirs.
function lookAgain() {
  const again = items.filter((item) => item.state === "failed" && item.passing);
  for (const item of again) {
    Object.assign(item, { state: "waiting", begun: false, error: null });
    showInList(item);
  }
  chosen.button.focus(); // the button goes
  show();
  work();
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
  item.turn += 1;
  const turn = item.turn;
  item.label = label;
  item.problem = null;
  if (!item.answers.has(label)) {
    showEvidence();
    try {
      keep(item, await explain(item, label));
    } catch (error) {
      // Another class may be wanted by now, or an earlier question may have had its answer.
      if (turn !== item.turn || item.answers.has(label)) return;
      item.label = item.seen;
      item.problem = `${label} cannot be shown: ${error.message}`;
      if (item === chosen) showBars();
    }
  }
  if (item !== chosen) return;
  showEvidence();
  if (item.problem) $("message").scrollIntoView({ block: "nearest" }); // a phone shows other parts
  else say(item);
}

function say(item) {
  if (item.state === "failed") {
    // The chosen one's reason is an alert already.
    if (item !== chosen) $("status").textContent = `${item.name}: ${item.error}`;
  } else if (item === chosen && item.state === "done") {
    const answer = item.answers.get(item.label);
    if (!answer) return;
    const found = tells(answer) ? `${answer.label}, score ${signed(answer.score)}` : inWords(answer);
    $("status").textContent = `${item.name}: ${found}`;
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
  item.title.textContent = best ? headline(best) : item.state === "failed" ? "Not read" : "…";
  item.detail.textContent = item.state === "failed" ? `${item.name}: ${item.error}` : item.name;
  item.button.title = item.name;
  if (!best) item.thumb.textContent = item.state === "failed" ? "!" : "";
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
  if (before) {
    before.problem = null; // it has been seen
    showInList(before);
  }
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
  $("controls").hidden = failed;
  $("again").hidden = !(failed && item.passing);
  $("result").hidden = !done;
  alarm(item.error);
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

// The evidence for the wanted class, or that it is still to come.
function showEvidence() {
  const best = chosen.answers.get(null);
  const answer = chosen.answers.get(chosen.label);
  const caption = [chosen.name, `${best.width} × ${best.height}`];
  $("best").textContent = headline(best);
  $("stack").classList.toggle("waiting", !answer);
  alarm(chosen.problem);
  if (answer) {
    chosen.seen = answer.label;
    $("sum").textContent = inWords(answer);
    $("map").src = answer.map;
    caption.push(`${answer.milliseconds.toFixed(0)} ms`);
  } else {
    $("sum").textContent = `The evidence for ${chosen.label} is on its way …`;
    $("map").removeAttribute("src");
  }
  $("legend-label").textContent = answer ? answer.label : "";
  $("map").alt = answer ? `Evidence for ${answer.label}` : "";
  $("caption").textContent = caption.join(" · ");
}

function alarm(reason) {
  $("message").hidden = reason === null;
  $("message").textContent = reason ?? "";
}

// What people do.

function fade() {
  $("stack").style.setProperty("--evidence", $("opacity").value / 100);
  $("opacity").setAttribute("aria-valuetext", `${$("opacity").value} %`);
}

$("opacity").addEventListener("input", fade);
$("again").addEventListener("click", lookAgain);
$("picture").addEventListener("error", () => {
  if (chosen?.state !== "done") return;
  chosen.problem = UNREADABLE;
  alarm(chosen.problem);
});
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
} catch (error) {
  $("model-line").textContent = error.message;
}

// Corrections: a person names the right class of an image, and the server saves it.

import { request } from "./api.js";

const $ = (id) => document.getElementById(id);

// Offer corrections where the server collects them; current returns the image that is shown.
export function offerCorrections(card, current) {
  if (!card.collects) return;
  $("correction").hidden = false;
  $("fate").textContent = "Images are sent to this server, classified and deleted; "
    + "those that you correct are kept.";
  $("class-names").replaceChildren(...Object.keys(card.classes).map((name) => new Option(name, name)));
  $("correction").addEventListener("submit", (event) => {
    event.preventDefault();
    save(current(), $("right-class").value, current);
  });
}

// Show what was said of an image.
export function showCorrection(item) {
  $("right-class").value = item.corrected ?? "";
  $("corrected").textContent = item.corrected ? `Saved as ${item.corrected}.` : "";
}

async function save(item, label, current) {
  const form = new FormData();
  form.append("file", item.file, item.name);
  const query = new URLSearchParams({ label });
  $("corrected").textContent = "Saving …";
  try {
    const saved = await request(`/api/corrections?${query}`, { method: "POST", body: form });
    item.corrected = saved.label;
    if (item === current()) showCorrection(item);
  } catch (error) {
    if (item === current()) $("corrected").textContent = error.message;
  }
}

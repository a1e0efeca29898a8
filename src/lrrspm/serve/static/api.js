// Questions to the server.

import { UNREADABLE, canBeRead } from "./picture.js";

const TRIES = 5;
const PASSING = [408, 503]; // about the server's day, not about what was asked

// Why there is no answer, for people; what is passing may be tried again.
class Failure extends Error {
  constructor(reason, passing = false) {
    super(reason);
    this.passing = passing;
  }
}

// An answer's JSON; whatever goes wrong becomes a Failure.
export async function ask(address, options) {
  for (let attempt = 1; ; attempt += 1) {
    let response;
    let body;
    try {
      response = await fetch(address, options);
      body = await response.json();
    } catch {
      throw new Failure("no answer; is the server still running?", true);
    }
    if (response.ok) return body;
    if (response.status !== 503 || attempt === TRIES) {
      const reason = body.error ?? `the server answered ${response.status}`;
      throw new Failure(reason, PASSING.includes(response.status));
    }
    const seconds = Number(response.headers.get("Retry-After")) || 1;
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds * attempt));
  }
}

export function readCard() {
  return ask("/api/model");
}

// The evidence for a class of a picture; null is the best class.
export async function explain(item, label) {
  const wanted = new URLSearchParams();
  if (label !== null) wanted.set("label", label);
  if (item.usePreview && !item.preview) wanted.set("preview", "true");
  const form = new FormData();
  form.append("file", item.file, item.name);
  try {
    return await ask(`/api/explain?${wanted}`, { method: "POST", body: form });
  } catch (error) {
    // To the browser a file that has gone or changed is an upload that failed, like any other.
    if (error.passing && !(await canBeRead(item.file))) throw new Failure(UNREADABLE);
    // The list has the name already.
    const before = `${item.name}: `;
    if (error.message.startsWith(before)) error.message = error.message.slice(before.length);
    throw error;
  }
}

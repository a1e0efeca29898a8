// Requests to the server.

import { UNREADABLE, isReadable } from "./image.js";

const TRIES = 5;
const TEMPORARY = [408, 503]; // the same request may succeed later

// A failed request, with a reason for people; a temporary one may be tried again.
class Failure extends Error {
  constructor(reason, temporary = false) {
    super(reason);
    this.temporary = temporary;
  }
}

// Return the JSON of a response; every error becomes a Failure.
export async function request(address, options) {
  for (let attempt = 1; ; attempt += 1) {
    let response;
    let body;
    try {
      response = await fetch(address, options);
      body = await response.json();
    } catch {
      throw new Failure("no response; is the server still running?", true);
    }
    if (response.ok) return body;
    if (response.status !== 503 || attempt === TRIES) {
      const reason = body.error ?? `the server responded with ${response.status}`;
      throw new Failure(reason, TEMPORARY.includes(response.status));
    }
    const seconds = Number(response.headers.get("Retry-After")) || 1;
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds * attempt));
  }
}

export function readCard() {
  return request("/api/model");
}

// Return the evidence for a class in an image; null is the best class.
export async function explain(item, label) {
  const query = new URLSearchParams();
  if (label !== null) query.set("label", label);
  if (item.usePreview && !item.preview) query.set("preview", "true");
  const form = new FormData();
  form.append("file", item.file, item.name);
  try {
    return await request(`/api/explain?${query}`, { method: "POST", body: form });
  } catch (error) {
    // For the browser, a file that was deleted or changed is just a failed upload.
    if (error.temporary && !(await isReadable(item.file))) throw new Failure(UNREADABLE);
    // The page shows the name already.
    const prefix = `${item.name}: `;
    if (error.message.startsWith(prefix)) error.message = error.message.slice(prefix.length);
    throw error;
  }
}

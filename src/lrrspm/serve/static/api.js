// Questions to the server.

const TRIES = 5;

// An answer's JSON; whatever goes wrong becomes an Error with a reason for people.
export async function ask(address, options) {
  for (let attempt = 1; ; attempt += 1) {
    let response;
    let body;
    try {
      response = await fetch(address, options);
      body = await response.json();
    } catch {
      throw new Error("no answer; is the server still running?");
    }
    if (response.ok) return body;
    if (response.status !== 503 || attempt === TRIES) {
      throw new Error(body.error ?? `the server answered ${response.status}`);
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
    // The list has the name already.
    const before = `${item.name}: `;
    throw error.message.startsWith(before) ? new Error(error.message.slice(before.length)) : error;
  }
}

// The API's description, from its schema.

import { ask } from "./api.js";

function made(kind, text, name = "") {
  const element = document.createElement(kind);
  element.textContent = text;
  element.className = name;
  return element;
}

function table(rows) {
  const place = made("div", "", "scroll");
  const body = document.createElement("tbody");
  for (const cells of rows) {
    const row = document.createElement("tr");
    const [first, ...rest] = cells;
    const head = document.createElement("td");
    head.append(made("code", first));
    row.append(head, ...rest.map((text) => made("td", text)));
    body.append(row);
  }
  const whole = document.createElement("table");
  whole.append(body);
  place.append(whole);
  return place;
}

function resolve(schema, node) {
  return node.$ref ? node.$ref.split("/").slice(1).reduce((at, key) => at[key], schema) : node;
}

function kind(schema, node) {
  if (node.$ref) return node.$ref.split("/").at(-1);
  if (node.anyOf) return node.anyOf.map((one) => kind(schema, one)).join(" or ");
  if (node.type === "array") return `list of ${kind(schema, node.items)}`;
  if (node.contentMediaType || node.format === "binary") return "file";
  return node.type ?? "anything";
}

function fields(schema, node) {
  const { properties = {}, required = [] } = resolve(schema, node);
  return Object.entries(properties).map(([name, one]) => [
    name,
    kind(schema, one),
    one.description ?? resolve(schema, one).description ?? (required.includes(name) ? "" : "optional"),
  ]);
}

function operation(schema, address, verb, one) {
  const title = document.createElement("h2");
  title.append(made("span", verb.toUpperCase(), "verb"), made("code", address));
  const parts = [title, made("p", one.description ?? "")];
  const form = one.requestBody?.content["multipart/form-data"];
  if (form) parts.push(made("h3", "Form"), table(fields(schema, form.schema)));
  if (one.parameters) {
    const rows = one.parameters.map((p) => [p.name, kind(schema, p.schema), p.description ?? ""]);
    parts.push(made("h3", "In the address, after ?"), table(rows));
  }
  const answer = one.responses["200"].content["application/json"].schema;
  parts.push(made("h3", `Answer: ${kind(schema, answer)}`), table(fields(schema, answer)));
  const problems = Object.entries(one.responses).filter(([status]) => status !== "200");
  if (problems.length) {
    parts.push(made("h3", "Problems"), table(problems.map(([s, p]) => [s, p.description])));
  }
  return parts;
}

const place = document.getElementById("paths");
document.getElementById("shell").textContent = [
  `curl -F files=@one.jpg -F files=@two.jpg '${location.origin}/api/predict?top=3'`,
  `curl -F file=@one.jpg '${location.origin}/api/explain?patches=true'`,
  `curl ${location.origin}/api/model`,
].join("\n");
try {
  const schema = await ask("/openapi.json");
  for (const [address, verbs] of Object.entries(schema.paths)) {
    for (const [verb, one] of Object.entries(verbs)) {
      place.append(...operation(schema, address, verb, one));
    }
  }
  const shared = ["ClassScore", "Prediction", "Refusal", "Patches", "HeldOut", "Accepts"];
  for (const name of shared) {
    const node = schema.components.schemas[name];
    place.append(made("h2", name), made("p", node.description ?? ""), table(fields(schema, node)));
  }
} catch (error) {
  place.append(made("p", error.message));
}

// Documentation of the API, from its schema.

import { request } from "./api.js";

function create(kind, text, name = "") {
  const element = document.createElement(kind);
  element.textContent = text;
  element.className = name;
  return element;
}

function table(rows) {
  const place = create("div", "", "scroll");
  const body = document.createElement("tbody");
  for (const cells of rows) {
    const row = document.createElement("tr");
    const [first, ...rest] = cells;
    const head = document.createElement("td");
    head.append(create("code", first));
    row.append(head, ...rest.map((text) => create("td", text)));
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
  title.append(create("span", verb.toUpperCase(), "verb"), create("code", address));
  const parts = [title, create("p", one.description ?? "")];
  const form = one.requestBody?.content["multipart/form-data"];
  if (form) parts.push(create("h3", "Form"), table(fields(schema, form.schema)));
  if (one.parameters) {
    const rows = one.parameters.map((p) => [p.name, kind(schema, p.schema), p.description ?? ""]);
    parts.push(create("h3", "Query parameters"), table(rows));
  }
  const response = one.responses["200"].content["application/json"].schema;
  parts.push(create("h3", `Response: ${kind(schema, response)}`), table(fields(schema, response)));
  const errors = Object.entries(one.responses).filter(([status]) => status !== "200");
  if (errors.length) {
    parts.push(create("h3", "Errors"), table(errors.map(([s, p]) => [s, p.description])));
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
  const schema = await request("/openapi.json");
  for (const [address, verbs] of Object.entries(schema.paths)) {
    for (const [verb, one] of Object.entries(verbs)) {
      place.append(...operation(schema, address, verb, one));
    }
  }
  const shared = ["ClassScore", "Prediction", "ErrorItem", "Patches", "Estimate", "Limits"];
  for (const name of shared) {
    const node = schema.components.schemas[name];
    place.append(create("h2", name), create("p", node.description ?? ""), table(fields(schema, node)));
  }
} catch (error) {
  place.append(create("p", error.message));
}

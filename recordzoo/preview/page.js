
"use strict";
const PER_PAGE = 60;
const TINY = 128;
const TAIL = 9;
const MOST_ENLARGED = 16;
const data = JSON.parse(document.getElementById("data").textContent);
const classNames = new Map(data.classes);
const at = (id) => document.getElementById(id);
const words = new Intl.NumberFormat("en");
let shown = data.items;
let page = 0;
let viewed = -1;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function className(item) {
  return item.label === null ? "" : classNames.get(item.label);
}

function picture(item, alternative) {
  const place = make("span", "place");
  if (item.image === null) {
    place.classList.add("broken");
    place.append(make("span", "", item.reason));
    return place;
  }
  const image = make("img");
  image.alt = alternative;
  image.src = item.image;
  if (item.size && Math.max(...item.size) < TINY) {
    image.className = "tiny";
    image.style.maxWidth = `${MOST_ENLARGED * item.size[0]}px`;
    image.style.maxHeight = `${MOST_ENLARGED * item.size[1]}px`;
  }
  place.append(image);
  return place;
}

function card(item, number) {
  const entry = make("li");
  const button = make("button", "card");
  button.type = "button";
  button.title = item.name;
  button.append(picture(item, ""));
  if (item.caption) button.append(make("span", "caption", item.caption));
  if (className(item)) button.append(make("span", "caption", className(item)));
  const name = make("span", "name");
  const cut = Math.max(0, item.short.length - TAIL);
  name.append(make("span", "start", item.short.slice(0, cut)), make("span", "end", item.short.slice(cut)));
  button.append(name);
  button.addEventListener("click", () => view(number));
  entry.append(button);
  return entry;
}

function numPages() {
  return Math.max(1, Math.ceil(shown.length / PER_PAGE));
}

function show(wanted) {
  page = Math.min(Math.max(wanted, 0), numPages() - 1);
  const first = page * PER_PAGE;
  const some = shown.slice(first, first + PER_PAGE);
  at("grid").replaceChildren(...some.map((item, number) => card(item, first + number)));
  const range = some.length < shown.length ? `${words.format(first + 1)}–${words.format(first + some.length)} of ` : "";
  at("status").textContent = `${range}${words.format(shown.length)} image${shown.length === 1 ? "" : "s"}`;
  at("where").textContent = `Page ${page + 1} of ${numPages()}`;
  at("previous").disabled = page === 0;
  at("next").disabled = page === numPages() - 1;
  at("pages").hidden = numPages() === 1;
}

function turn(by) {
  const before = page;
  show(page + by);
  if (page !== before) window.scrollTo(0, 0);
}

function filter() {
  const label = at("class").value;
  const text = at("search").value.trim().toLowerCase();
  shown = data.items.filter((item) =>
    (label === "" || String(item.label) === label) &&
    (text === "" || item.name.toLowerCase().includes(text) || className(item).toLowerCase().includes(text)));
  show(0);
}

function formatBytes(count) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${unit === 0 ? count : Number(count.toPrecision(3))} ${units[unit]}`;
}

function view(number) {
  viewed = number;
  const item = shown[number];
  const facts = {
    "Name": item.name,
    "Class": className(item) && (className(item) === String(item.label) ? className(item) : `${className(item)} (number ${item.label})`),
    "Shows": item.caption,
    "Size": item.size && `${words.format(item.size[0])} × ${words.format(item.size[1])} pixels`,
    "Format": item.format,
    "Mode": item.mode,
    "Stored": `${formatBytes(item.bytes)} (${words.format(item.bytes)} bytes)`,
    "Position": words.format(item.position),
    "Problem": item.reason,
  };
  at("viewer-title").textContent = className(item) || item.name;
  at("viewer-picture").replaceChildren(picture(item, item.name));
  at("facts").replaceChildren(...Object.entries(facts).filter((fact) => fact[1]).flatMap(
    ([name, value]) => [make("dt", "", name), make("dd", "", value)]));
  at("viewer-previous").disabled = number === 0;
  at("viewer-next").disabled = number === shown.length - 1;
  if (!at("viewer").open) at("viewer").showModal();
}

function viewOther(by) {
  const number = viewed + by;
  if (number < 0 || number >= shown.length) return;
  if (Math.floor(number / PER_PAGE) !== page) show(Math.floor(number / PER_PAGE));
  view(number);
}

const counts = new Map();
for (const item of data.items) counts.set(item.label, (counts.get(item.label) || 0) + 1);
at("class").append(new Option(`all (${words.format(data.items.length)})`, ""));
for (const [label, name] of data.classes) {
  at("class").append(new Option(`${name} (${words.format(counts.get(label))})`, label));
}
at("class-label").hidden = data.classes.length === 0;
at("class").addEventListener("change", filter);
at("search").addEventListener("input", filter);
at("filter").addEventListener("submit", (event) => event.preventDefault());
at("previous").addEventListener("click", () => turn(-1));
at("next").addEventListener("click", () => turn(1));
at("viewer-previous").addEventListener("click", () => viewOther(-1));
at("viewer-next").addEventListener("click", () => viewOther(1));
at("viewer-close").addEventListener("click", () => at("viewer").close());
at("viewer").addEventListener("click", (event) => { if (event.target === at("viewer")) at("viewer").close(); });
at("viewer").addEventListener("close", () => {
  const cards = at("grid").querySelectorAll("button");
  if (cards[viewed - page * PER_PAGE]) cards[viewed - page * PER_PAGE].focus();
});
document.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (at("viewer").open) viewOther(by);
  else if (!(event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement)) turn(by);
});
filter();

/* The table of all datasets: a search box, filters, columns that sort. Without this script it is a plain table.
   Each filter says how many datasets each of its values would leave, with what the others are set to.
   What is searched, filtered and sorted by stands in the table (docs/parts/overview.py); what was chosen stands in the
   address behind "#", so that it can be linked: #task=detection&sort=images&down */
(function () {
  "use strict";

  const FILTERS = [["task", "Task"], ["license", "License"], ["obtained", "How it is obtained"],
    ["size", "Download at most"], ["checked", "Checked with"]];

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function field(label, control) {
    return element("label", { htmlFor: control.id }, element("span", {}, label), control);
  }

  function values(row, name) {
    return row.dataset[name].split("|");
  }

  function select(rows, name) {
    const known = [...new Set(rows.flatMap((row) => values(row, name)))].filter(Boolean);
    known.sort((a, b) => a.localeCompare(b, "en", { sensitivity: "base", numeric: true }));
    const options = ["", ...known].map((value) => element("option", { value }));
    return element("select", { id: `catalogue-${name}` }, ...options);
  }

  function start() {
    const table = document.getElementById("catalogue");
    const place = document.getElementById("catalogue-controls");
    if (!table || !place || place.firstChild) return;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const names = heads.map((head) => head.textContent.trim().toLowerCase());
    const state = { sort: names[0], down: false };

    const search = element("input", { id: "catalogue-search", type: "search", autocomplete: "off" });
    search.placeholder = "name, class, word";
    const selects = Object.fromEntries(FILTERS.map(([name]) => [name, select(rows, name)]));
    const order = element("select", { id: "catalogue-order" }, ...heads.flatMap((head, index) => {
      const [up, down] = "number" in rows[0].cells[index].dataset ? ["least", "most"] : ["A to Z", "Z to A"];
      const option = (value, text) => element("option", { value }, `${head.textContent}: ${text}`);
      return [option(names[index], up), option(`${names[index]} down`, down)];
    }));
    const chosen = element("span");
    const panel = element("details", {}, element("summary", {}, "Filters and order", chosen),
      element("div", {}, ...FILTERS.map(([name, label]) => field(label, selects[name])), field("Order", order)));
    const form = element("form", { id: "catalogue-form" }, field("Search", search), panel);
    form.setAttribute("role", "search");
    form.setAttribute("aria-label", "Datasets");
    const count = element("span", { id: "catalogue-count" });
    count.setAttribute("role", "status");
    const clear = element("button", { id: "catalogue-clear", type: "button" }, "Show all");
    place.append(form, element("p", {}, count, " ", clear));

    const wide = window.matchMedia("(min-width: 60em)"); // as in site.css, which then hides the head of the panel
    const unfold = () => { panel.open = wide.matches; };
    wide.addEventListener("change", unfold);
    unfold();

    function sortKey(row, column) {
      const cell = row.cells[column];
      if ("number" in cell.dataset) return cell.dataset.value === "" ? null : Number(cell.dataset.value);
      return cell.dataset.value || cell.textContent.trim().toLowerCase();
    }

    function compare(a, b, column) {
      const [x, y] = [sortKey(a, column), sortKey(b, column)];
      if (x === null || y === null) return (x === null) - (y === null); // unknown: last in either direction
      const order = typeof x === "number" ? x - y : x.localeCompare(y, "en");
      return state.down ? -order : order;
    }

    function sort() {
      const column = names.indexOf(state.sort);
      body.append(...[...rows].sort((a, b) => compare(a, b, column)));
      heads.forEach((head, index) => {
        head.setAttribute("aria-sort", index !== column ? "none" : state.down ? "descending" : "ascending");
      });
      order.value = `${state.sort}${state.down ? " down" : ""}`;
    }

    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (row, name, value) => !value || values(row, name).includes(value);
      const found = rows.filter((row) => words.every((word) => row.dataset.search.includes(word)));
      const shown = found.filter((row) => FILTERS.every(([name]) => fits(row, name, selects[name].value)));
      for (const row of rows) row.hidden = !shown.includes(row);
      for (const [name] of FILTERS) {
        const others = FILTERS.filter(([other]) => other !== name);
        const left = found.filter((row) => others.every(([other]) => fits(row, other, selects[other].value)));
        for (const option of selects[name].options) {
          const number = left.filter((row) => fits(row, name, option.value)).length;
          option.textContent = `${option.value || "any"} (${number})`;
        }
      }
      const set = FILTERS.filter(([name]) => selects[name].value).length;
      chosen.textContent = set ? ` (${set})` : "";
      const all = shown.length === rows.length;
      count.textContent = all ? `${rows.length} datasets` : `${shown.length} of ${rows.length} datasets`;
      if (!shown.length) count.textContent = "No dataset fits all of this.";
      table.hidden = !shown.length;
      clear.hidden = all;
    }

    function write() {
      const chosen = new URLSearchParams();
      if (search.value) chosen.set("q", search.value);
      for (const [name] of FILTERS) if (selects[name].value) chosen.set(name, selects[name].value);
      if (state.sort !== names[0] || state.down) chosen.set("sort", state.sort);
      if (state.down) chosen.set("down", "");
      const hash = chosen.toString();
      history.replaceState(history.state, "", hash ? `#${hash}` : location.pathname + location.search);
    }

    function read() {
      const text = location.hash.slice(1);
      if (text && !text.includes("=")) return; // a heading of the page
      const chosen = new URLSearchParams(text);
      search.value = chosen.get("q") || "";
      for (const [name] of FILTERS) {
        selects[name].value = chosen.get(name) || "";
        if (selects[name].selectedIndex < 0) selects[name].value = ""; // no such value
      }
      state.sort = names.includes(chosen.get("sort")) ? chosen.get("sort") : names[0];
      state.down = chosen.has("down");
      sort();
      filter();
    }

    heads.forEach((head, index) => {
      const button = element("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        state.down = state.sort === names[index] && !state.down;
        state.sort = names[index];
        sort();
        write();
      });
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => {
      [state.sort] = order.value.split(" ");
      state.down = order.value.endsWith(" down");
      sort();
      filter();
      write();
    });
    clear.addEventListener("click", () => {
      search.value = "";
      for (const [name] of FILTERS) selects[name].value = "";
      filter();
      write();
      search.focus();
    });
    window.addEventListener("hashchange", read);
    sort();
    filter();
    read();
  }

  if (window.document$) window.document$.subscribe(start);
  else start();
})();

/* The table of all datasets: a search box, filters, columns that sort. Without this script it is a plain table.
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
    const options = known.map((value) => element("option", { value }, value));
    return element("select", { id: `catalogue-${name}` }, element("option", { value: "" }, "any"), ...options);
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
    const count = element("p", { id: "catalogue-count" });
    count.setAttribute("role", "status");
    const clear = element("button", { id: "catalogue-clear", type: "button" }, "Show all");
    const form = element("form", { id: "catalogue-form" }, field("Search", search),
      ...FILTERS.map(([name, label]) => field(label, selects[name])), clear);
    form.setAttribute("role", "search");
    form.setAttribute("aria-label", "Datasets");
    place.append(form, count);

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
    }

    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const fits = words.every((word) => row.dataset.search.includes(word))
          && FILTERS.every(([name]) => !selects[name].value || values(row, name).includes(selects[name].value));
        row.hidden = !fits;
        shown += fits;
      }
      count.textContent = shown === rows.length ? `${rows.length} datasets` : `${shown} of ${rows.length} datasets`;
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
    form.addEventListener("input", () => { filter(); write(); });
    clear.addEventListener("click", () => {
      form.reset();
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

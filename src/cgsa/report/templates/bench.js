"use strict";

// Tables: a click on a header sorts, the box at the top filters.
// A row without a name belongs to the row above it: both are moved and hidden together.

function groups(table) {
  const found = [];
  for (const row of table.tBodies[0].rows) {
    if (row.cells[0].textContent || !found.length) found.push([]);
    found.at(-1).push(row);
  }
  return found;
}

function sortTable(table, column, header) {
  const rising = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const text = (group) => group[0].cells[column].textContent;
  const compare = (a, b) => {
    const [x, y] = [parseFloat(text(a)), parseFloat(text(b))];
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1; // rows without a number come last in either order
    const order = isNaN(x) ? text(a).localeCompare(text(b)) : x - y;
    return rising ? order : -order;
  };
  for (const group of groups(table).sort(compare)) table.tBodies[0].append(...group);
}

function filterTables(text) {
  const wanted = text.trim().toLowerCase();
  for (const table of document.querySelectorAll("table")) {
    for (const group of groups(table)) {
      const matches = group.some((row) => row.textContent.toLowerCase().includes(wanted));
      for (const row of group) row.hidden = !matches;
      const fold = table.closest("details");
      if (fold && wanted && matches) fold.open = true;
    }
  }
}

for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    const button = document.createElement("button");
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortTable(table, column, header));
    header.append(button);
  });
}

const filter = document.createElement("input");
filter.type = "search";
filter.placeholder = "Filter rows of all tables";
filter.setAttribute("aria-label", filter.placeholder);
filter.addEventListener("input", () => filterTables(filter.value));
document.querySelector("nav").append(filter);

// The chart: all curves of one scenario and fault at a time.

const HEIGHT = 420, LEFT = 48, RIGHT = 12, TOP = 24, BOTTOM = 44;
const SHORT = 10; // lines with at most this many points get markers

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function html(name, text = "", parent = null) {
  const made = document.createElement(name);
  made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function choice(parent, text, names, changed) {
  const label = html("label", `${text} `, parent);
  const select = html("select", "", label);
  const fill = (list) => select.replaceChildren(...list.map((name) => new Option(name.replaceAll("_", " "), name)));
  fill(names);
  select.addEventListener("change", changed);
  return { get value() { return select.value; }, fill };
}

function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step / 1e6; at++) found.push(+(at * step).toPrecision(10));
  return found;
}

function startChart(place, data) {
  const controls = html("div", "", place);
  controls.className = "controls";
  const entries = html("div", "", place);
  entries.className = "entries";
  const plot = html("div", "", place);
  plot.className = "plot";
  const svg = element("svg", { height: HEIGHT, role: "img", "aria-label": "Accuracy along a stream" });
  const values = html("div", "", plot);
  values.className = "values";
  values.hidden = true;
  plot.prepend(svg);

  const hidden = new Set();
  const scenario = choice(controls, "scenario", Object.keys(data), chooseScenario);
  const fault = choice(controls, "fault", [], draw);
  const measure = choice(controls, "accuracy", ["cumulative", "real-time"], draw);
  for (const [text, none] of [["all", false], ["none", true]]) {
    html("button", text, controls).addEventListener("click", () => {
      for (const name of Object.keys(data[scenario.value].line_styles)) none ? hidden.add(name) : hidden.delete(name);
      listEntries();
      draw();
    });
  }

  function chooseScenario() {
    fault.fill(Object.keys(data[scenario.value].faults));
    listEntries();
    draw();
  }

  function listEntries() {
    entries.replaceChildren();
    for (const [name, style] of Object.entries(data[scenario.value].line_styles)) {
      const label = html("label", "", entries);
      const box = html("input", "", label);
      box.type = "checkbox";
      box.checked = !hidden.has(name);
      box.addEventListener("change", () => {
        box.checked ? hidden.delete(name) : hidden.add(name);
        draw();
      });
      const sample = element("svg", { width: 26, height: 10 });
      sample.append(element("line", { x1: 0, x2: 26, y1: 5, y2: 5, ...strokeAttributes(style) }));
      label.append(sample, ` ${name}`);
    }
  }

  function strokeAttributes(style) {
    return {
      stroke: style.colour, "stroke-width": style.width * 1.2, fill: "none",
      "stroke-dasharray": style.dash.map((length) => length * 1.5).join(" "),
    };
  }

  function shown() {
    return Object.entries(data[scenario.value].faults[fault.value].curves)
      .filter(([name]) => !hidden.has(name))
      .map(([name, curve]) => ({ name, seen: curve.seen, y: curve[measure.value] }));
  }

  let width, x, y, here; // chart width, pixel positions of windows and shares, and the line under the pointer

  function draw() {
    const stream = data[scenario.value].faults[fault.value];
    const lines = shown();
    const low = Math.min(1, ...lines.flatMap((line) => line.y));
    const bottom = lines.length ? Math.max(0, Math.floor(low * 20) / 20) : 0;
    const top = bottom < 1 ? 1 : 1.05;
    width = plot.clientWidth;
    x = (seen) => LEFT + (seen / stream.end) * (width - LEFT - RIGHT);
    y = (share) => TOP + ((top - share) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
    values.hidden = true;
    svg.replaceChildren();
    const faint = { stroke: "currentColor", "stroke-opacity": 0.15 };
    for (const share of ticks(bottom, top, 6)) {
      svg.append(element("line", { x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share), ...faint }));
      svg.append(element("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, share));
    }
    for (const seen of ticks(0, stream.end, width / 150)) {
      svg.append(element("text", { x: x(seen), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, seen));
    }
    svg.append(element("text", { x: (LEFT + width) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "windows seen"));
    const upright = { y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor", "stroke-opacity": 0.4 };
    for (const [name, begin] of Object.entries(stream.begins)) {
      svg.append(element("line", { x1: x(begin), x2: x(begin), ...upright }));
      svg.append(element("text", { x: x(begin) + 4, y: TOP - 8 }, name));
    }
    if (stream.onset !== null) {
      svg.append(element("line", { x1: x(stream.onset), x2: x(stream.onset), ...upright, "stroke-dasharray": "5 4" }));
      svg.append(element("text", { x: x(stream.onset) + 4, y: TOP - 8 }, "fault"));
    }
    for (const line of lines) {
      const style = data[scenario.value].line_styles[line.name];
      const points = line.seen.map((seen, place) => [x(seen).toFixed(1), y(line.y[place]).toFixed(1)]);
      svg.append(element("polyline", { points: points.join(" "), ...strokeAttributes(style) }));
      if (points.length > SHORT) continue;
      for (const [cx, cy] of points) svg.append(element("circle", { cx, cy, r: 3, fill: style.colour }));
    }
    here = element("line", { y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor", visibility: "hidden" });
    svg.append(here);
  }

  function leave() {
    values.hidden = true;
    here.setAttribute("visibility", "hidden");
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const stream = data[scenario.value].faults[fault.value];
    const pointer = event.clientX - box.left;
    const share = (pointer - LEFT) / (width - LEFT - RIGHT);
    const lines = shown();
    if (share < 0 || share > 1 || !lines.length) return leave();
    // For each line, the batch that contains the window under the pointer.
    const found = lines.map((line) => {
      const batch = line.seen.findIndex((seen) => seen >= share * stream.end);
      return { name: line.name, value: line.y.at(batch) };
    }).sort((a, b) => b.value - a.value);
    here.setAttribute("x1", pointer);
    here.setAttribute("x2", pointer);
    here.setAttribute("visibility", "visible");
    values.replaceChildren();
    html("b", `window ${Math.round(share * stream.end)}`, values);
    for (const { name, value } of found) html("div", `${value.toFixed(3)}  ${name}`, values);
    values.hidden = false;
    values.style.left = share < 0.5 ? `${pointer + 16}px` : "";
    values.style.right = share < 0.5 ? "" : `${width - pointer + 16}px`;
  });
  svg.addEventListener("pointerleave", leave);
  chooseScenario();
  addEventListener("resize", draw);
}

const chart = document.querySelector(".chart");
if (chart) startChart(chart, JSON.parse(document.getElementById("chart-data").textContent));

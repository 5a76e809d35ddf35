// Sorting, filtering, evidence on demand, values of charts. Without it the page shows everything at once: what
// is not seen at first stands in <noscript>, which is text to a browser that runs this, and costs it no time.
"use strict";
document.documentElement.className = "js";

addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.results");
  const entries = [...table.tBodies].map(entryOf);
  for (const entry of entries) entry.button.addEventListener("click", () => open(entry, !entry.isOpen));
  sorting(table, entries);
  filtering(table, entries);
  for (const paper of document.querySelectorAll(".paper")) chart(paper);
  for (const details of document.querySelectorAll("details.others")) {
    details.addEventListener("toggle", () => unfoldCharts(details));
  }
  const followed = () => entries.filter((entry) => "#" + entry.body.id === location.hash).forEach((entry) => open(entry, true));
  addEventListener("hashchange", followed);
  followed();
});

function entryOf(body) {
  const row = body.rows[0];
  const values = new Map([["name", { value: row.cells[0].textContent.trim() }], ["status", { value: row.cells[1].textContent.trim() }]]);
  for (const cell of row.cells) {
    const { key, value } = cell.dataset;
    if (key && value !== undefined) {
      const number = cell.classList.contains("number") ? Number(value) : NaN;
      values.set(key, { value: Number.isNaN(number) ? value : number, doubtful: cell.classList.contains("doubtful") });
    }
  }
  return { body, values, button: row.querySelector("button.more"), evidence: body.rows[1], isOpen: false, text: null };
}

// What the template escaped is escaped in there, too: it becomes the same elements as without a script.
function unfold(place) {
  for (const folded of place.querySelectorAll("noscript")) folded.outerHTML = folded.textContent;
}

function unfoldCharts(details) {
  if (!details.querySelector("noscript")) return;
  unfold(details);
  details.querySelectorAll(".paper").forEach(chart);
}

// What all rows of a trial share stands once in the page, and is copied to where it is read.
function open(entry, isOpen) {
  entry.isOpen = isOpen;
  entry.body.classList.toggle("open", isOpen);
  entry.button.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen || !entry.evidence.querySelector("noscript")) return;
  unfold(entry.evidence);
  for (const place of entry.evidence.querySelectorAll(".of-trial")) {
    const trial = document.getElementById("trial-" + place.dataset.trial);
    if (trial) place.replaceChildren(...unfolded(trial).childNodes);
  }
}

function unfolded(element) {
  const copy = element.cloneNode(true);
  unfold(copy);
  return copy;
}

// Both ways, what does not count comes after what does, and what is missing comes last.
function sorting(table, entries) {
  const heads = [...table.tHead.rows[0].cells];
  const words = new Intl.Collator("en", { numeric: true });
  const compare = (one, two) => (typeof one === "number" && typeof two === "number" ? one - two : words.compare(one, two));
  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const way = now === "none" ? head.dataset.first : now === "ascending" ? "descending" : "ascending";
      for (const other of heads) other.setAttribute("aria-sort", other === head ? way : "none");
      const sign = way === "ascending" ? 1 : -1;
      const ranked = entries.map((entry) => {
        const cell = entry.values.get(head.dataset.key);
        return { entry, rank: cell ? (cell.doubtful ? 1 : 0) : 2, value: cell ? cell.value : 0 };
      });
      ranked.sort((one, two) => one.rank - two.rank || sign * compare(one.value, two.value));
      table.append(...ranked.map(({ entry }) => entry.body));
    });
  }
}

function filtering(table, entries) {
  const form = document.querySelector("form.filters");
  const shown = document.querySelector("p.shown");
  const chips = [...form.querySelectorAll(".chip")];
  const columns = form.elements.columns;
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  const apply = () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")].filter((select) => select.value !== "");
    const statuses = chips.filter(pressed).map((chip) => chip.dataset.status);
    let count = 0;
    for (const entry of entries) {
      if (words.length && entry.text === null) entry.text = unfolded(entry.body).textContent.toLowerCase();
      const fits =
        chosen.every((select) => entry.body.getAttribute("data-" + select.name) === select.value) &&
        (!statuses.length || statuses.includes(entry.body.dataset.status)) &&
        words.every((word) => entry.text.includes(word));
      entry.body.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = count === entries.length ? `All ${count} rows` : `${count} of ${entries.length} rows`;
  };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", apply);
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      press(chip, !pressed(chip));
      apply();
    });
  }
  columns?.addEventListener("click", () => {
    press(columns, !pressed(columns));
    table.classList.toggle("wide", pressed(columns));
  });
  form.addEventListener("reset", () => {
    for (const chip of chips) press(chip, false);
    setTimeout(apply); // after the fields have their values again
  });
  form.reset(); // a browser that comes back to the page fills in what was there before
}

// Each mark of a chart says what it is in data-says, a line for each field.
function chart(paper) {
  const tip = document.getElementById("tip");
  const marks = [...paper.querySelectorAll("[data-says]")];
  if (!marks.length) return;
  let current = -1;
  paper.tabIndex = 0;
  paper.setAttribute("role", "group");
  paper.setAttribute("aria-label", "Chart; arrow keys read its values");

  const hide = () => {
    marks[current]?.classList.remove("current");
    current = -1;
    tip.hidden = true;
  };
  const show = (index) => {
    if (index === current) return;
    marks[current]?.classList.remove("current");
    current = index;
    const mark = marks[index];
    mark.classList.add("current");
    tip.replaceChildren(
      ...mark.dataset.says.split("\n").map((line) => Object.assign(document.createElement("div"), { textContent: line })),
    );
    tip.hidden = false;
    const at = mark.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  };

  paper.addEventListener("pointermove", (event) => {
    const mark = event.target.closest("[data-says]");
    if (mark) show(marks.indexOf(mark));
    else hide();
  });
  paper.addEventListener("pointerleave", hide);
  paper.addEventListener("blur", hide);
  paper.addEventListener("keydown", (event) => {
    const last = marks.length - 1;
    const next = {
      ArrowRight: Math.min(current + 1, last),
      ArrowDown: Math.min(current + 1, last),
      ArrowLeft: Math.max(current - 1, 0),
      ArrowUp: Math.max(current - 1, 0),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape") hide();
    if (next === undefined) return;
    event.preventDefault();
    show(next);
  });
}

// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.others:not([open])")) {
    unfoldCharts(details);
    details.open = true;
    details.dataset.printed = "";
  }
});
addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-printed]")) {
    details.open = false;
    delete details.dataset.printed;
  }
});

"use strict";
(() => {
  const agents = [...document.querySelectorAll(".agent")];
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const setAll = (open) => document.querySelectorAll(".agent, .agent details").forEach((part) => { part.open = open; });
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const agent of agents) {
      const text = agent.textContent.toLowerCase();
      agent.hidden = !words.every((word) => text.includes(word));
      shown += agent.hidden ? 0 : 1;
    }
    count.textContent = words.length ? `${shown} of ${agents.length} agents` : "";
  };
  filter.addEventListener("input", apply);
  document.getElementById("open-all").addEventListener("click", () => setAll(true));
  document.getElementById("close-all").addEventListener("click", () => setAll(false));
  const visible = () => [...document.querySelectorAll(".agent:not([hidden]) summary")]
    .filter((part) => !part.parentElement.parentElement.closest("details:not([open])"));
  const move = (from, by) => {
    const all = visible();
    const next = all[all.indexOf(from) + by];
    if (next) next.focus();
  };
  const keys = {
    ArrowDown: (at) => move(at, 1),
    ArrowUp: (at) => move(at, -1),
    ArrowRight: (at) => { if (at.parentElement.open) move(at, 1); else at.parentElement.open = true; },
    ArrowLeft: (at) => {
      if (at.parentElement.open) { at.parentElement.open = false; return; }
      const above = at.parentElement.parentElement.closest("details");
      if (above) above.querySelector("summary").focus();
    },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (event.key === "/" && at !== filter) { filter.focus(); event.preventDefault(); return; }
    if (event.key === "Escape" && at === filter) { filter.value = ""; apply(); return; }
    if (at && at.tagName === "SUMMARY" && at.closest(".agent") && keys[event.key]) { keys[event.key](at); event.preventDefault(); }
  });
  document.querySelector(".tools").hidden = false;
})();

// Puts the page together: draws what there is, again when the width or the colours change.
"use strict";

(() => {
  const PAPER_WIDTH = 680;
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const charts = document.getElementById("charts");
  const maps = document.getElementById("maps");
  const graph = document.getElementById("flame");
  let plots = [];

  const width = () => {
    if (root.classList.contains("paper")) return PAPER_WIDTH;
    return Math.floor((charts ?? maps).getBoundingClientRect().width);
  };
  const draw = () => {
    plots.forEach((plot) => plot.destroy());
    charts?.replaceChildren();
    maps?.replaceChildren();
    plots = [];
    if (charts) plots.push(...timeline.draw(charts, data, width()));
    if (maps) plots.push(...heat.draw(maps, data, width()));
  };

  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // A file may not reach the clipboard everywhere: then the command is selected.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };

  const local = (time) => {
    const at = new Date(time.dateTime);
    if (at.getTimezoneOffset() !== 0) time.after(`, ${at.toLocaleTimeString()} local time`);
  };

  // On paper all is light, of the paper's width, and open.
  const print = (on) => () => {
    root.classList.toggle("paper", on);
    for (const details of document.querySelectorAll("details")) {
      if (on) details.dataset.was = details.open;
      details.open = on || details.dataset.was === "true";
    }
    draw();
  };

  document.querySelectorAll("button.copy").forEach((button) => {
    button.addEventListener("click", () => copy(button));
  });
  document.querySelectorAll("header time").forEach(local);
  if (graph) flame.draw(graph, data.flame);
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
  let drawn = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== drawn && !root.classList.contains("paper")) draw();
    drawn = innerWidth;
  });
  root.dataset.ready = "true";
})();

// The kernel's stacks during the stall: width is time, colour is the change against the baseline.
"use strict";

const flame = (() => {
  const ROW = 20;
  const THINNEST_PERCENT = 0.2;
  const NAMED_PERCENT = 3;
  const SHADES = [0.03, 0.12, 0.3, 0.6];
  const LEAST_CHANGE_PERCENT = 1;
  const { element } = timeline;

  // A tree from the list of branches, each before what it called.
  const tree = (data) => {
    const { samples, during, before } = data;
    const root = { depth: -1, name: "all", samples, during, before, x: 0, below: [] };
    const path = [root];
    const ends = [0];
    for (const [depth, name, samples, during, before] of data.branches) {
      path.length = depth + 1;
      ends.length = depth + 1;
      const above = path[depth];
      const branch = { depth, name: data.names[name], samples, during, before, x: ends[depth], above, below: [] };
      above.below.push(branch);
      ends[depth] += samples;
      ends[depth + 1] = branch.x;
      path[depth + 1] = branch;
    }
    return root;
  };

  const every = (branch, visit) => {
    visit(branch);
    branch.below.forEach((below) => every(below, visit));
  };

  const percent = (value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)}%`;

  const describe = (branch, compared) => {
    const during = `${percent(branch.during)} of total CPU time during the stall`;
    return compared
      ? `${branch.name}: ${during}, ${percent(branch.before)} before`
      : `${branch.name}: ${during}`;
  };

  // Red is more, blue is less: four shades by the share of the largest change.
  const shade = (branch, most, compared) => {
    if (!compared) return "same";
    const share = (branch.during - branch.before) / Math.max(most, LEAST_CHANGE_PERCENT);
    const at = SHADES.filter((from) => Math.abs(share) > from).length;
    if (at === 0) return "same";
    return share > 0 ? `more-${at}` : `less-${at}`;
  };

  const search = (place, root, repaint) => {
    const box = element("p", "search");
    const label = element("label", "", "Find a function ");
    const input = element("input", "");
    input.type = "search";
    input.placeholder = "compact, reclaim, …";
    const found = element("span", "about");
    found.setAttribute("role", "status");
    label.append(input);
    box.append(label, found);
    place.append(box);
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let samples = 0;
      const look = (branch, within) => {
        branch.found = wanted !== "" && branch.name.toLowerCase().includes(wanted);
        if (branch.found && !within) samples += branch.samples;
        branch.below.forEach((below) => look(below, within || branch.found));
      };
      look(root, false);
      found.textContent = wanted === "" ? "" : `${percent((samples * 100) / root.samples)} of the samples`;
      repaint();
    });
  };

  const scale = () => {
    const place = element("p", "scale");
    place.append("less than before");
    for (const name of ["less-4", "less-2", "same", "more-2", "more-4"]) {
      place.append(element("span", `swatch ${name}`));
    }
    place.append("more than before");
    return place;
  };

  // Arrow keys go along the tree: up to the caller, down to what it called most, sideways.
  const beside = (branch, by) => {
    const all = branch.above?.below ?? [branch];
    return all[all.indexOf(branch) + by];
  };
  const keys = {
    ArrowUp: (branch) => branch.above,
    ArrowDown: (branch) => branch.below[0],
    ArrowLeft: (branch) => beside(branch, -1),
    ArrowRight: (branch) => beside(branch, 1),
  };

  const draw = (place, data) => {
    const root = tree(data);
    let most = 0;
    every(root, (branch) => {
      if (branch !== root) most = Math.max(most, Math.abs(branch.during - branch.before));
    });
    const details = element("p", "details");
    const graph = element("div", "graph");
    graph.setAttribute("role", "group");
    graph.setAttribute("aria-label", "Flame graph; arrow keys move, Enter zooms in, Escape zooms out");
    let shown = root;
    const say = (branch) => {
      details.textContent = describe(branch ?? shown, data.compared);
    };

    const button = (branch, left, width) => {
      const made = element("button", `branch ${shade(branch, most, data.compared)}`);
      made.textContent = width < NAMED_PERCENT ? "" : branch.name;
      made.ariaLabel = branch.name;
      made.type = "button";
      made.style.left = `${left}%`;
      made.style.width = `${width}%`;
      made.style.top = `${(branch.depth + 1) * ROW}px`;
      made.title = describe(branch, data.compared);
      made.tabIndex = branch === shown ? 0 : -1;
      made.classList.toggle("found", branch.found === true);
      made.addEventListener("click", () => zoom(branch));
      made.addEventListener("mouseenter", () => say(branch));
      made.addEventListener("focus", () => say(branch));
      made.addEventListener("keydown", (event) => {
        const next = event.key === "Escape" ? root : keys[event.key]?.(branch);
        if (event.key === "Escape") zoom(root);
        if (!next) return;
        event.preventDefault();
        next.button?.focus();
      });
      branch.button = made;
      return made;
    };

    // What is above the branch shown fills the width; what is beside it is not drawn.
    const paint = () => {
      const made = [];
      let deepest = 0;
      every(root, (branch) => (branch.button = undefined));
      for (let above = shown.above; above; above = above.above) made.push(button(above, 0, 100));
      const walk = (branch) => {
        const width = (branch.samples * 100) / shown.samples;
        if (width < THINNEST_PERCENT) return;
        deepest = Math.max(deepest, branch.depth);
        made.push(button(branch, ((branch.x - shown.x) * 100) / shown.samples, width));
        branch.below.forEach(walk);
      };
      walk(shown);
      graph.replaceChildren(...made);
      graph.style.height = `${(deepest + 2) * ROW}px`;
    };

    const zoom = (branch) => {
      shown = branch;
      paint();
      say(branch);
      branch.button.focus({ preventScroll: true });
    };

    search(place, root, paint);
    if (data.compared) place.append(scale());
    graph.addEventListener("mouseleave", () => say());
    paint();
    say();
    place.append(graph, details);
  };

  return { draw };
})();

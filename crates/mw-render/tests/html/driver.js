// Does in a report what a person would, and leaves what came of it in the title.
"use strict";

const said = () => document.querySelector("p.details").textContent;
const key = (key) => document.activeElement.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const steps = [];
const input = document.querySelector(".search input");
input.value = "compaction_alloc";
input.dispatchEvent(new Event("input"));
steps.push(document.querySelectorAll(".branch.found").length);
steps.push(document.querySelector(".search .about").textContent);
document.querySelector(".branch[tabindex='0']").focus();
key("ArrowDown");
key("ArrowRight");
steps.push(said());
document.activeElement.click();
steps.push(document.activeElement.style.width);
key("Escape");
steps.push(said());
const over = document.querySelectorAll("#charts .u-over")[2];
const box = over.getBoundingClientRect();
for (const kind of ["mouseenter", "mousemove"]) {
    over.dispatchEvent(new MouseEvent(kind, {
        bubbles: true, clientX: box.left + box.width * 0.7, clientY: box.top + 9 }));
}
steps.push(document.getElementById("readout").textContent);
steps.push(document.querySelector("#charts .line-1 .value").textContent);
document.title = steps.join(" | ");

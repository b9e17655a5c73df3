// What goes wrong in this page is said in it: a chart that is missing must not pass for nothing to
// show. This script comes first.
"use strict";

const failed = (text) => {
  const place = document.getElementById("errors");
  place.hidden = false;
  place.textContent += `This page is incomplete: ${text}. `;
};
window.addEventListener("error", (event) => failed(event.message));
window.addEventListener("unhandledrejection", (event) => failed(event.reason));
document.addEventListener("securitypolicyviolation", (event) => {
  failed(`${event.violatedDirective} refused ${event.blockedURI}`);
});

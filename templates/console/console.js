/* Says that a live page is old while the gateway does not answer, or answers with an error. */
const stale = (hidden) => () => { document.getElementById("stale").hidden = hidden; };
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) document.addEventListener(name, stale(false));
document.addEventListener("htmx:afterSwap", stale(true));

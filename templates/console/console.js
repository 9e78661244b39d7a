/* Says that a live page is old while the gateway does not answer, or answers with an error, and what that error says. */
const stale = document.getElementById("stale");
const silence = stale.firstElementChild.textContent;
const became = (old, why) => {
  stale.firstElementChild.textContent = why;
  stale.hidden = !old;
  document.body.classList.toggle("old", old);
};
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, ({detail}) => {
    const page = new DOMParser().parseFromString(detail.xhr?.responseText ?? "", "text/html");
    became(true, page.querySelector("main .fault")?.textContent ?? silence);
  });
}
document.addEventListener("htmx:afterSwap", () => became(false, silence));
